/** One batch: what `addScript` is given for it. */

import { rememberedMs } from '../../counters.ts'
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
  /** The number that Redis has been told of at least, in this epoch. */
  readonly acknowledged: number
  /** How long Redis keeps the number (ms). */
  readonly markMs: number
  /** Redis's clock now (ms), 0 where it is not known. */
  readonly sentAt: number
  /** Epoch of the store that the batch is for. */
  readonly epoch: string
  /** Name of the journal that tells of the reports. */
  readonly journal: string
  readonly now: number
}

/** Keys and arguments, but for the store's and the mark's; undefined when there is nothing to add. */
export interface Additions {
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

/** Longer than it has to, since the clocks of gateway and Redis are two. */
const seenMs = rememberedMs + 3_600_000
/** By so much the ends that stream and journal tell of one response may differ, and more. */
const sourcesDifferMs = 10

/** Made anew for each attempt, since windows end meanwhile. */
export function toAdditions(batch: Batch, attempt: Attempt): Additions | undefined {
  const { parts } = batch
  const { number, acknowledged, markMs, sentAt, epoch, journal, now } = attempt
  const reports = batch.reports.filter(({ sendBy }) => sendBy > now)
  const hasTokens = parts.some(({ tokens, endsAt }) => tokens > 0 && now < endsAt)
  // One that was sent before is repeated though its reports are too old: its answer says which counted.
  if (batch.reports.length === 0 && !hasTokens) return undefined
  const keys = parts.map(({ counter }) => counter.keyPrefix + counter.key)
  const head = [number, acknowledged, markMs, sentAt, epoch, journal, parts.length]
  const args: (string | number)[] = head
  for (const { tokens, endsAt } of parts) {
    const leftMs = Math.max(0, Math.ceil(endsAt - now))
    args.push(leftMs > 0 ? tokens : 0, leftMs)
  }
  if (batch.reports.length > 0) {
    const ends = reports.map(({ gatewayEndedAt }) => gatewayEndedAt + sourcesDifferMs)
    args.push(seenMs, Math.max(...ends, -1), toReportList(batch, keys, now))
  }
  return { keys, args }
}

/**
 * The script's list of those reports that are not too old, in one argument; pushes the sets that it
 * names to `keys`.
 */
function toReportList({ reports, places }: Batch, keys: string[], now: number): string {
  const counterCount = keys.length
  const numberOf = (key: string): number => {
    const index = keys.indexOf(key, counterCount)
    return (index < 0 ? keys.push(key) - 1 : index) - counterCount + 1
  }
  const list: (string | number)[] = []
  for (const [place, report] of reports.entries()) {
    if (report.sendBy <= now) continue
    const { counters, tokens, member, seenKey, neighbourKey, endedAt, gatewayEndedAt } = report
    const neighbour = neighbourKey === undefined ? 0 : numberOf(neighbourKey)
    list.push(place, member, numberOf(seenKey), neighbour, tokens, gatewayEndedAt, counters.length)
    for (const counter of counters) {
      const part = places.get(counter) as number
      list.push(part + 1, Math.max(0, Math.ceil(endedAt + counter.windowMs - now)))
    }
  }
  return JSON.stringify(list)
}
