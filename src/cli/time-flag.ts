/** A flag whose value is a time. */

import { WrongCall } from './command.ts'

const time = /^\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d))?$/

/** Milliseconds since the epoch of a day or a time (RFC 3339); throws a WrongCall, naming the flag; `otherwise`: what else it may be. */
export function readTimeFlag(flag: string, raw: string, otherwise = ''): number {
  const read = time.test(raw) ? Date.parse(raw) : Number.NaN
  if (!Number.isNaN(read)) return read
  throw new WrongCall(
    `${flag} is a day like 2026-03-01, or a time like 2026-03-01T12:00:00Z${otherwise}.`,
  )
}
