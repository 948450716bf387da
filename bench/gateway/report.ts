/** The output of a bench: a table of the cases, one of the yardsticks, and notes. */

import { renderTable } from '../../src/cli/output.ts'
import { figureOf, figures } from './figures.ts'
import {
  casesOf,
  type Mode,
  perSecond,
  type Results,
  type Run,
  runsOf,
  subjectsOf,
} from './results.ts'
import { showFigure, showMs, showNumber } from './show-figure.ts'
import { median, pairwise, sample } from './statistics.ts'

/** Medians over the runs, ± half of the range. */
export function renderResults(results: Results): string {
  return [
    ...describe(results),
    '',
    renderCases(results, (unit) => unit !== 'ms'),
    '',
    renderCases(results, (unit) => unit === 'ms'),
    '',
    ...renderYardsticks(results),
    ...renderBursts(results),
    ...others(results),
  ].join('\n')
}

function describe({ about }: Results): readonly string[] {
  const { node, processor, cores, loadBefore, loadAfter, rounds, runMs, connections } = about
  return [
    `Node ${node}, ${processor}, ${cores} cores, load average ${loadBefore.toFixed(1)} before, ${loadAfter.toFixed(1)} after`,
    `Medians of ${rounds} rounds of ${showNumber(runMs / 1_000, 1)} s; ${connections} connections, or at a rate of ${about.perSecond}/s; µs of CPU a request; ms`,
  ]
}

/** Leaves out empty columns, for example with a target on another machine. */
function renderCases(results: Results, has: (unit: string) => boolean): string {
  const names = casesOf(results)
  const shown = figures.filter(
    ({ read, unit }) =>
      has(unit) && names.some((name) => !Number.isNaN(read(results, name).median)),
  )
  if (shown.length === 0) return ''
  return renderTable(
    ['request', ...shown.map(({ title }) => title)],
    names.map((name) => [
      name,
      ...shown.map(({ read, unit }) => showFigure(read(results, name), unit)),
    ]),
  )
}

function renderYardsticks(results: Results): readonly string[] {
  const [name = ''] = casesOf(results)
  const yardsticks = subjectsOf(results).filter((one) => one !== 'bare' && one !== 'gateway')
  if (yardsticks.length === 0) return []
  const cell = (
    subject: string,
    mode: 'closed' | 'open',
    read: (run: Run) => number,
    unit: string,
  ) => showFigure(figureOf({ results, name, mode, subject }, read), unit)
  const micros = (subject: string, mode: Mode): readonly number[] =>
    runsOf(results, name, mode, subject).map((run) => run.serviceMicros)
  /** The ratio of the service's cost to the yardstick's, in the same round. */
  const times = (subject: string, mode: Mode): string => {
    const ratio = pairwise(micros('gateway', mode), micros(subject, mode), (a, b) => a / b)
    return subject === 'gateway' ? '' : showFigure(ratio, 'times')
  }
  const rows = ['gateway', ...yardsticks].map((subject) => [
    subject === 'gateway' ? 'the service, all it does' : subject,
    cell(subject, 'closed', (run) => run.serviceMicros, 'µs'),
    times(subject, 'closed'),
    cell(subject, 'open', (run) => run.serviceMicros, 'µs'),
    times(subject, 'open'),
    cell(subject, 'closed', (run) => run.envoyMicros, 'µs'),
    cell(subject, 'closed', perSecond, 'rps'),
  ])
  const header = [
    `answers Check (${name})`,
    'server',
    'service is',
    'server at rate',
    'service is',
    'its Envoy',
    'rps',
  ]
  return [renderTable(header, rows), '']
}

function renderBursts({ bursts }: Results): readonly string[] {
  if (bursts === undefined) return []
  const [{ calls } = { calls: 0 }] = bursts
  const header = [`${calls} calls at once, room for 40`, 'let through', 'used of the limit']
  const rows = bursts.map(({ mode, allowed, used, limit }) => [
    mode,
    showNumber(allowed),
    `${showNumber((100 * used) / limit)} %`,
  ])
  return [renderTable(header, rows), '']
}

function others(results: Results): readonly string[] {
  const all = (subject: string, read: (run: Run) => number | undefined): readonly number[] =>
    casesOf(results).flatMap((name) =>
      (['closed', 'open'] as const).flatMap((mode) =>
        runsOf(results, name, mode, subject).map((run) => read(run) ?? Number.NaN),
      ),
    )
  const most = (values: readonly number[]): number => sample(values).most
  const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`
  const lines: string[] = []
  const service = most(all('gateway', (run) => run.serviceBytes))
  if (!Number.isNaN(service)) {
    const [ours, bare] = ['gateway', 'bare'].map((name) => most(all(name, (run) => run.envoyBytes)))
    lines.push(
      `Resident at most: service ${megabytes(service)}, Envoy ${megabytes(ours ?? 0)}, the bare one ${megabytes(bare ?? 0)}.`,
    )
  }
  const [first = ''] = casesOf(results)
  const inside = (mode: Mode) =>
    runsOf(results, first, mode, 'gateway').filter((run) => run.inside !== undefined)
  const allocated = median(
    inside('closed').map((run) => (run.inside?.allocatedBytes ?? Number.NaN) / run.answered),
  )
  if (!Number.isNaN(allocated)) {
    const late = (mode: Mode): string => {
      const p99 = median(inside(mode).map((run) => run.inside?.loopP99Ms ?? Number.NaN))
      const longest = most(inside(mode).map((run) => run.inside?.loopMaxMs ?? Number.NaN))
      return `${showMs(p99)} ms late at p99, ${showMs(longest)} at most`
    }
    lines.push(
      `The service allocated ${showNumber(allocated)} bytes a request (${first}).`,
      `Its event loop was ${late('closed')}; at the rate ${late('open')}.`,
    )
  }
  const own = median(all('gateway', (run) => run.cpuMicros / run.answered))
  lines.push(`The load itself took ${showNumber(own)} µs of CPU a request.`)
  for (const name of casesOf(results)) {
    const runs = runsOf(results, name, 'open', 'gateway')
    const reached = median(runs.map(perSecond))
    if (runs.length > 0 && reached < 0.95 * results.about.perSecond) {
      lines.push(
        `${name}: the rate was not reached, ${showNumber(reached)}/s of ${results.about.perSecond}; what it added is the queue's.`,
      )
    }
  }
  return lines
}
