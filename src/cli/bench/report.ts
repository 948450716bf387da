/** The table of a bench. */

import { renderTable } from '../table.ts'
import { shares } from './load/plan.ts'
import { type Mode, perSecond, type Results, type Run, runsOf } from './results.ts'
import { pairwise, type Sample, sample, spread } from './statistics.ts'

const header = [
  'request',
  'rps bare',
  'rps',
  'rps/core',
  'Envoy bare',
  'Envoy',
  'times bare',
  'service',
  'at rate',
  'added p50/p99/p99.9',
  'at rate',
  'waited p99',
]
const plotted = [0.5, 0.99, 0.999].map((share) => shares.indexOf(share as never))

/** A row for each case: medians over the runs, and after ± half of what lies between the extremes. */
export function renderResults(results: Results, names: readonly string[]): string {
  return renderTable(
    header,
    names.map((name) => {
      const of = (mode: Mode, subject: string) => runsOf(results, name, mode, subject)
      const [bare, ours] = [of('closed', 'bare'), of('closed', 'gateway')]
      const [bareSteady, steady] = [of('open', 'bare'), of('open', 'gateway')]
      const each = (runs: readonly Run[], figure: (run: Run) => number) => sample(runs.map(figure))
      const envoy = (runs: readonly Run[]) => runs.map((run) => run.envoyMicros)
      return [
        name,
        show(each(bare, perSecond)),
        show(each(ours, perSecond)),
        show(each(ours, (run) => 1e6 / (run.envoyMicros + run.serviceMicros))),
        show(each(bare, (run) => run.envoyMicros)),
        show(each(ours, (run) => run.envoyMicros)),
        show(
          pairwise(envoy(ours), envoy(bare), (a, b) => a / b),
          2,
        ),
        show(each(ours, (run) => run.serviceMicros)),
        show(each(steady, (run) => run.serviceMicros)),
        added(ours, bare),
        added(steady, bareSteady),
        showMs(
          sample(steady.map((run) => run.waitedMs[plotted[1] as number] ?? Number.NaN)).median,
        ),
      ]
    }),
  )
}

function added(ours: readonly Run[], bare: readonly Run[]): string {
  return plotted
    .map((at) => {
      const latency = (runs: readonly Run[]) => runs.map((run) => run.latencyMs[at] ?? Number.NaN)
      return showMs(pairwise(latency(ours), latency(bare), (a, b) => a - b).median)
    })
    .join('/')
}

function showMs(ms: number): string {
  return Number.isNaN(ms) ? '–' : ms.toFixed(Math.abs(ms) < 10 ? 2 : 0)
}

function show(figure: Sample, digits = 0): string {
  if (Number.isNaN(figure.median)) return '–'
  const value = figure.median.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  return `${value} ±${Math.round(100 * spread(figure))}%`
}
