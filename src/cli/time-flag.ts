/** A flag whose value is a time. */

import { parseTimestamp } from '../formats/time.ts'
import { WrongCall } from './command.ts'

/** Milliseconds since the epoch of a day or a time (RFC 3339); throws a WrongCall, naming the flag; `otherwise`: what else it may be. */
export function readTimeFlag(flag: string, raw: string, otherwise = ''): number {
  const read = parseTimestamp(raw)
  if (read !== undefined) return read
  throw new WrongCall(
    `${flag} is a day like 2026-03-01, or a time like 2026-03-01T12:00:00Z${otherwise}.`,
  )
}
