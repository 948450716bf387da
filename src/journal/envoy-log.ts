/**
 * Asks Envoy's admin page whether and how soon Envoy writes its log. If the page does not respond, no problem is
 * reported, since an Envoy that has ended loses no lines.
 */

import { isObject, type JsonObject } from '../formats/fields.ts'
import { parseObject } from '../formats/parse-json.ts'

/** Rejects if the page does not respond. */
export type RequestEnvoyAdmin = (path: string, method?: 'GET' | 'POST') => Promise<string>

export const serverInfoPath = '/server_info'
/** A longer flush interval makes counters late. */
export const slowFlushMs = 100
const statsPath = `/stats?filter=${encodeURIComponent('^filesystem\\.(write|reopen)_failed$')}`
/** Without another failure for this long, the problem is over. */
const overAfterMs = 10_000
const infoEveryMs = 60_000

export function createEnvoyLogCheck(ask: RequestEnvoyAdmin, monotonic: () => number) {
  let failures: number | undefined
  let failedAt = Number.NEGATIVE_INFINITY
  let flushMs = 0
  let infoAt = Number.NEGATIVE_INFINITY

  return {
    reopen: async (): Promise<void> => void (await ask('/reopen_logs', 'POST')),
    /** Call it every few seconds. */
    async check() {
      const found = sumIn(await ask(statsPath))
      // The statistics of a new Envoy begin at 0.
      if (failures !== undefined && found > failures) failedAt = monotonic()
      if (found < (failures ?? 0)) infoAt = Number.NEGATIVE_INFINITY
      failures = found
      if (monotonic() - infoAt >= infoEveryMs) {
        flushMs = flushMsIn(await ask(serverInfoPath))
        infoAt = monotonic()
      }
      return {
        /** Interval in milliseconds at which Envoy flushes its log. */
        flushMs,
        /** Whether a write failed within the last 10 s. */
        isFailing: monotonic() - failedAt < overAfterMs,
      }
    },
  }
}

/** `filesystem.write_failed: 2` */
function sumIn(stats: string): number {
  let sum = 0
  for (const [, number] of stats.matchAll(/^filesystem\.\w+: (\d+)$/gm)) sum += Number(number)
  return sum
}

/** The flush interval in milliseconds, from the page at `serverInfoPath`; 0 if it is missing there. */
export function flushMsIn(info: string): number {
  const seconds = Number.parseFloat(String(optionsIn(info).file_flush_interval))
  return Number.isFinite(seconds) ? seconds * 1_000 : 0
}

/** The number of worker threads, from the same page; 0 if it is missing there. */
export function workersIn(info: string): number {
  const { concurrency } = optionsIn(info)
  return Number.isSafeInteger(concurrency) ? Number(concurrency) : 0
}

function optionsIn(info: string): JsonObject {
  const options = parseObject(info)?.command_line_options
  return isObject(options) ? options : {}
}
