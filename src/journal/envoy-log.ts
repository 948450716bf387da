/**
 * Whether Envoy writes its log, and how soon: told by its admin page. A page that does not answer tells
 * nothing, since an Envoy that has ended loses no line.
 */

/** Rejects if the page does not answer. */
export type AskEnvoy = (path: string, method?: 'GET' | 'POST') => Promise<string>

interface EnvoyLogState {
  /** Milliseconds until what Envoy has is written. */
  readonly flushMs: number
  /** Whether a write has failed a moment ago. */
  readonly isFailing: boolean
}

export const infoPath = '/server_info'
/** What is written later makes counters late. */
export const slowFlushMs = 100
const statsPath = `/stats?filter=${encodeURIComponent('^filesystem\\.(write|reopen)_failed$')}`
/** Without a further failure for so long, the last one is over. */
const overAfterMs = 10_000
const infoEveryMs = 60_000

export function createEnvoyLog(ask: AskEnvoy, monotonic: () => number) {
  let failures: number | undefined
  let failedAt = Number.NEGATIVE_INFINITY
  let flushMs = 0
  let infoAt = Number.NEGATIVE_INFINITY

  return {
    reopen: async (): Promise<void> => void (await ask('/reopen_logs', 'POST')),
    /** To be called every few seconds. */
    async look(): Promise<EnvoyLogState> {
      const found = sumIn(await ask(statsPath))
      // Another Envoy begins at 0.
      if (failures !== undefined && found > failures) failedAt = monotonic()
      if (found < (failures ?? 0)) infoAt = Number.NEGATIVE_INFINITY
      failures = found
      if (monotonic() - infoAt >= infoEveryMs) {
        flushMs = flushMsIn(await ask(infoPath))
        infoAt = monotonic()
      }
      return { flushMs, isFailing: monotonic() - failedAt < overAfterMs }
    },
  }
}

/** `filesystem.write_failed: 2` */
function sumIn(stats: string): number {
  let sum = 0
  for (const [, number] of stats.matchAll(/^filesystem\.\w+: (\d+)$/gm)) sum += Number(number)
  return sum
}

/** Of what Envoy's page says at `infoPath`; 0: it says nothing of it. */
export function flushMsIn(info: string): number {
  const seconds = Number.parseFloat(String(optionsIn(info).file_flush_interval))
  return Number.isFinite(seconds) ? seconds * 1_000 : 0
}

/** How many threads of it serve requests, as it says there; 0: it says nothing of it. */
export function workersIn(info: string): number {
  const { concurrency } = optionsIn(info)
  return Number.isSafeInteger(concurrency) ? Number(concurrency) : 0
}

function optionsIn(info: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(info).command_line_options ?? {}
  } catch {
    return {}
  }
}
