/** Figures of the runs of a case: the columns of the table, and the values for comparisons. */

import { shares } from './load/plan.ts'
import { type Mode, perSecond, type Results, type Run, runsOf } from './results.ts'
import { pairwise, type Sample, sample } from './statistics.ts'

export interface Figure {
  readonly title: string
  readonly unit: 'rps' | 'µs' | 'ms' | 'times'
  /** Whether lower is better. */
  readonly isCost: boolean
  read(results: Results, name: string): Sample
}

/** Figures of one subject, over its runs. */
export function figureOf(
  { results, name, mode, subject }: { results: Results; name: string; mode: Mode; subject: string },
  read: (run: Run) => number,
): Sample {
  return sample(runsOf(results, name, mode, subject).map(read))
}

/** Combines the figures of the gateway and the bare Envoy of each round. */
function beside(
  mode: Mode,
  read: (run: Run) => number,
  combine: (ours: number, bare: number) => number,
): Figure['read'] {
  return (results, name) =>
    pairwise(
      runsOf(results, name, mode, 'gateway').map(read),
      runsOf(results, name, mode, 'bare').map(read),
      combine,
    )
}

function of(mode: Mode, subject: string, read: (run: Run) => number): Figure['read'] {
  return (results, name) => figureOf({ results, name, mode, subject }, read)
}

export function latencyAt(share: (typeof shares)[number]): (run: Run) => number {
  const at = shares.indexOf(share)
  return (run) => run.latencyMs[at] ?? Number.NaN
}

const envoy = (run: Run): number => run.envoyMicros
const service = (run: Run): number => run.serviceMicros
const minus = (ours: number, bare: number): number => ours - bare
const waited = (run: Run): number => run.waitedMs[shares.indexOf(0.99)] ?? Number.NaN

function added(mode: Mode, share: 0.5 | 0.99 | 0.999): Figure {
  const title = `+p${100 * share} ${mode === 'closed' ? '' : 'at rate'}`.trim()
  const read = beside(mode, latencyAt(share), minus)
  return { title, unit: 'ms', isCost: true, read }
}

// biome-ignore format: a row a figure
export const figures: readonly Figure[] = [
  { title: 'rps bare', unit: 'rps', isCost: false, read: of('closed', 'bare', perSecond) },
  { title: 'rps', unit: 'rps', isCost: false, read: of('closed', 'gateway', perSecond) },
  { title: 'rps/core', unit: 'rps', isCost: false, read: of('closed', 'gateway', (run) => 1e6 / (run.envoyMicros + run.serviceMicros)) },
  { title: 'Envoy bare', unit: 'µs', isCost: true, read: of('closed', 'bare', envoy) },
  { title: 'Envoy', unit: 'µs', isCost: true, read: of('closed', 'gateway', envoy) },
  { title: 'times bare', unit: 'times', isCost: true, read: beside('closed', envoy, (ours, bare) => ours / bare) },
  { title: 'service', unit: 'µs', isCost: true, read: of('closed', 'gateway', service) },
  { title: 'service at rate', unit: 'µs', isCost: true, read: of('open', 'gateway', service) },
  ...([0.5, 0.99, 0.999] as const).map((share) => added('closed', share)),
  ...([0.5, 0.99, 0.999] as const).map((share) => added('open', share)),
  { title: 'waited p99', unit: 'ms', isCost: true, read: of('open', 'gateway', waited) },
]
