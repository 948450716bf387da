/** The service's time. The clock of this machine may be wrong by minutes, and would show times as past or future. */

/** How far this machine's clock is ahead, in milliseconds. */
let aheadMs = 0
/** A header names a whole second, and arrives later. */
const toleranceMs = 30_000

/** Reads the service's time in a response. */
export function readClock({ headers }: Response): void {
  const difference = Date.now() - Date.parse(headers.get('date') ?? '')
  if (Number.isNaN(difference)) return
  aheadMs = Math.abs(difference) < toleranceMs ? 0 : difference
}

/** The service's time, in milliseconds since the epoch. */
export function now(): number {
  return Date.now() - aheadMs
}

/** The time on this machine's clock, for timers, at this time of the service. */
export function hereAt(time: number): number {
  return time + aheadMs
}
