/** One batch: the arguments of `addScript`. */

import { rememberedMs } from '../../counters.ts'
import { minuteOf, neighbourOf } from '../reports.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'

/** One counter of a batch. */
export interface Part {
  readonly counter: SharedCounter
  /** Tokens, without those of reports. */
  readonly tokens: number
  /** End of the window that the tokens belong to. */
  readonly endsAt: number
}

export interface Batch {
  readonly parts: readonly Part[]
  readonly reports: readonly SharedReport[]
}

export interface Attempt {
  readonly number: number
  /** The highest number that Redis is known to have, in this epoch. */
  readonly acknowledged: number
  /** How long Redis keeps the number (ms). */
  readonly markMs: number
  /** Redis's clock now (ms), 0 if unknown. */
  readonly sentAt: number
  /** Epoch of the store that the batch is for. */
  readonly epoch: string
  /** Name of the journal that also contains the reports. */
  readonly journal: string
  /** The prefix of the sets of counted responses. */
  readonly seenPrefix: string
  readonly now: number
}

/**
 * Keys and arguments, except for those of the store and the mark; undefined if there is nothing to
 * add.
 */
export interface Additions {
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

/** Longer than needed, because the clocks of gateway and Redis differ. */
const seenMs = rememberedMs + 3_600_000
/** More than the ends of one response differ between stream and journal. */
const sourcesDifferMs = 10

/** Made anew for each attempt, because windows may end meanwhile. */
export function toAdditions(batch: Batch, attempt: Attempt): Additions | undefined {
  const { parts } = batch
  const { number, acknowledged, markMs, sentAt, epoch, journal, seenPrefix, now } = attempt
  const reports = batch.reports.filter(({ sendBy }) => sendBy > now)
  const hasTokens = parts.some(({ tokens, endsAt }) => tokens > 0 && now < endsAt)
  // A batch that was sent before is repeated even if its reports are too old: the response says
  // which of them counted.
  if (batch.reports.length === 0 && !hasTokens) return undefined
  const keys = parts.map(({ counter }) => counter.keyPrefix + counter.key)
  const args = [number, acknowledged, markMs, sentAt, epoch, journal, parts.length]
  for (const { tokens, endsAt } of parts) {
    const leftMs = Math.max(0, Math.ceil(endsAt - now))
    args.push(leftMs > 0 ? tokens : 0, leftMs)
  }
  if (batch.reports.length > 0) {
    const ends = reports.map(({ gatewayEndedAt }) => gatewayEndedAt + sourcesDifferMs)
    const list = toReportList(batch, keys, seenPrefix, now)
    args.push(seenMs, Math.max(...ends, -1), JSON.stringify(list))
  }
  return { keys, args }
}

/**
 * The script's list of the reports that are not too old; adds the sets that it refers to to `keys`.
 */
function toReportList(
  { reports }: Batch,
  keys: string[],
  seenPrefix: string,
  now: number,
): readonly (string | number)[] {
  const minutes: number[] = []
  const numberOf = (minute: number): number => {
    const index = minutes.indexOf(minute)
    return index < 0 ? minutes.push(minute) : index + 1
  }
  const list: (string | number)[] = []
  for (let place = 0; place < reports.length; place += 1) {
    const report = reports[place] as SharedReport
    if (report.sendBy <= now) continue
    const { counters, tokens, member, endedAt, gatewayEndedAt } = report
    const beside = neighbourOf(gatewayEndedAt)
    const neighbour = beside === undefined ? 0 : numberOf(beside)
    const own = numberOf(minuteOf(gatewayEndedAt))
    const agoMs = Math.max(0, Math.ceil(now - endedAt))
    list.push(place, member, own, neighbour, tokens, gatewayEndedAt, agoMs, counters.length)
    for (const counter of counters) {
      list.push(counter.place + 1, Math.max(0, Math.ceil(endedAt + counter.windowMs - now)))
    }
  }
  for (const minute of minutes) keys.push(seenPrefix + minute)
  return list
}
