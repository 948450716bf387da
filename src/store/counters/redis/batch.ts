/** One batch: what the script of counter-scripts.ts is given for it. */

import { rememberedMs } from '../reports.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'

/** What a batch has of one counter. */
export interface Part {
  readonly counter: SharedCounter
  /** Tokens besides those of reports. */
  readonly tokens: number
  /** End of the window that the tokens belong to. */
  readonly endsAt: number
}

export interface Batch {
  readonly parts: readonly Part[]
  readonly reports: readonly SharedReport[]
  /** Where the part of each counter of a report is. */
  readonly places: ReadonlyMap<SharedCounter, number>
}

export interface Attempt {
  readonly number: number
  /** How long Redis keeps the number (ms). */
  readonly markMs: number
  /** Redis's clock now (ms), 0 where it is not known. */
  readonly sentAt: number
  /** Session of the connection. */
  readonly session: number
  readonly now: number
}

/** Keys and arguments but for the mark; undefined when there is nothing to add. */
export interface Additions {
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

/** Below this what is left of a lost window is not worth restoring, and may be an error of timing. */
const leastRestoredMs = 2_000
/** Longer than it has to, since the clocks of gateway and Redis are two. */
const seenMs = rememberedMs + 3_600_000

/** Made anew for each attempt, since meanwhile windows end and Redis may have lost others. */
export function toAdditions(batch: Batch, attempt: Attempt): Additions | undefined {
  const { parts } = batch
  const { now, session } = attempt
  const reports = batch.reports.filter(({ sendBy }) => sendBy > now)
  if (reports.length === 0 && !parts.some((part) => openingOf(part, session, now) > 0)) {
    return undefined
  }
  const keys = parts.map(({ counter }) => counter.keyPrefix + counter.key)
  const args: (string | number)[] = [attempt.number, attempt.markMs, attempt.sentAt]
  for (const part of parts) {
    const leftMs = Math.max(0, Math.ceil(part.endsAt - now))
    args.push(leftMs > 0 ? part.tokens : 0, leftMs, openingOf(part, session, now))
  }
  if (reports.length > 0) args.push(seenMs, toReportList({ ...batch, reports }, keys, now))
  return { keys, args }
}

/** What a window that this part opens begins with; nothing once its own has ended. */
function openingOf({ counter, tokens, endsAt }: Part, session: number, now: number): number {
  return now < endsAt ? tokens + lostTokens(counter, endsAt - now, session) : 0
}

/**
 * What Redis told of the window on an earlier connection: a Redis that came back empty has to begin
 * with that. On the same connection a window that is gone was ended by somebody.
 */
function lostTokens({ toldIn, used }: SharedCounter, leftMs: number, session: number): number {
  return toldIn !== session && leftMs > leastRestoredMs ? used : 0
}

/** The script's list of reports, in one argument; pushes the sets that it names to `keys`. */
function toReportList({ reports, places }: Batch, keys: string[], now: number): string {
  const counterCount = keys.length
  const numberOf = (key: string): number => {
    const index = keys.indexOf(key, counterCount)
    return (index < 0 ? keys.push(key) - 1 : index) - counterCount + 1
  }
  const list: (string | number)[] = []
  for (const { counters, tokens, member, seenKey, neighbourKey, endedAt } of reports) {
    const neighbour = neighbourKey === undefined ? 0 : numberOf(neighbourKey)
    list.push(member, numberOf(seenKey), neighbour, tokens, counters.length)
    for (const counter of counters) {
      const place = places.get(counter) as number
      list.push(place + 1, Math.max(0, Math.ceil(endedAt + counter.windowMs - now)))
    }
  }
  return JSON.stringify(list)
}
