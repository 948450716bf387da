import type { Mode, Results, Run } from '../../../bench/gateway/results.ts'

/** Figures of the gateway's three rounds that differ from the default. */
export interface Unusual {
  readonly envoyMicros?: readonly number[]
  readonly tookMs?: number
}

/** Results of one case: a bare Envoy at 100 µs, the gateway at 300 µs, and a yardstick in Go. */
export function resultsOf({ envoyMicros = [300, 300, 300], tookMs = 1_000 }: Unusual): Results {
  const run = (latency: number, fields: Partial<Run>): Run => ({
    answered: 400,
    refused: {},
    failed: {},
    tookMs,
    latencyMs: Array(8).fill(latency),
    waitedMs: Array(8).fill(0),
    cpuMicros: 4_000,
    envoyMicros: 100,
    serviceMicros: Number.NaN,
    envoyBytes: 1e8,
    serviceBytes: Number.NaN,
    ...fields,
  })
  const inside = { allocatedBytes: 1_600_000, collections: 2, loopP99Ms: 1, loopMaxMs: 2 }
  const series = (['closed', 'open'] as const).flatMap((mode: Mode) => {
    const ours = envoyMicros.map((micros) =>
      run(2, { envoyMicros: micros, serviceMicros: 150, serviceBytes: 2e8, inside }),
    )
    const of = (subject: string, runs: readonly Run[]) => {
      return { case: 'path-json-small', mode, subject, runs }
    }
    const times = <T>(one: T): T[] => [one, one, one]
    return [
      of('bare', times(run(1, {}))),
      of('gateway', ours),
      of('Go', times(run(2, { serviceMicros: 60 }))),
    ]
  })
  return {
    about: {
      version: 1,
      at: '2026-01-01T00:00:00Z',
      node: '24.0.0',
      processor: 'some processor',
      cores: 2,
      loadBefore: 0,
      loadAfter: 1,
      rounds: 3,
      runMs: 1_000,
      connections: 32,
      perSecond: 400,
      envoyThreads: 1,
    },
    series,
  }
}
