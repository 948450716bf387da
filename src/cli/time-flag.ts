/** A flag whose value is a time. */

import { parseDuration, parseTimestamp } from '../formats/time.ts'
import { WrongCall } from './command.ts'

/** Whether a duration counts forward or back from now. */
type Direction = 'ahead' | 'ago'

/** The forms of such a flag's value, for its description. */
export const timeForms = {
  ahead: 'a day (2026-03-01), a time (RFC 3339), or a duration from now like 12h or 3d',
  ago: 'a day (2026-03-01), a time (RFC 3339), or a duration ago like 12h or 3d, in UTC',
} as const satisfies Record<Direction, string>

/**
 * Milliseconds since the epoch of a day, of a time (RFC 3339), or of a duration from now or ago; throws a WrongCall, naming the
 * flag.
 */
export function readTimeFlag(flag: string, raw: string, direction: Direction): number {
  const duration = parseDuration(raw)
  const read =
    duration === undefined
      ? parseTimestamp(raw)
      : Date.now() + (direction === 'ahead' ? duration : -duration)
  // Beyond the years that RFC 3339 can write.
  if (read !== undefined && read >= 0 && read < latestTime) return read
  const from = direction === 'ahead' ? 'from now' : 'ago'
  throw new WrongCall(
    `${flag} must be a day like 2026-03-01, a time like 2026-03-01T12:00:00Z, or a duration ${from} like 3d.`,
  )
}

/** The time in the API's form; undefined if the flag is not given. */
export function parseTimeFlag(
  flag: string,
  raw: string | undefined,
  direction: Direction,
): string | undefined {
  return raw === undefined ? undefined : new Date(readTimeFlag(flag, raw, direction)).toISOString()
}

/** `--from` and `--to` for the API; throws a WrongCall if the span ends before it begins. */
export function toSpan(flags: {
  readonly from?: string | undefined
  readonly to?: string | undefined
}) {
  const from = parseTimeFlag('--from', flags.from, 'ago')
  const to = parseTimeFlag('--to', flags.to, 'ago')
  if (from === undefined || to === undefined || from <= to) return { from, to }
  throw new WrongCall('--from must be before --to.')
}

/** 9999-12-31, in milliseconds since the epoch. */
export const latestTime = 253_402_214_400_000
