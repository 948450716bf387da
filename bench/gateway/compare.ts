/** Compares two benches figure by figure, and whether they differ by more than their noise. */

import { renderTable } from '../../src/cli/output.ts'
import { type Figure, figures } from './figures.ts'
import { casesOf, type Results } from './results.ts'
import { type Sample, spread } from './statistics.ts'

/** The change of a figure. `share` is relative to the old median: 0.1 is a tenth more. */
export interface Change {
  readonly share: number
  /** How much the runs of both benches vary among themselves, as a fraction. */
  readonly noise: number
  /** `same` within the noise. */
  readonly verdict: 'better' | 'worse' | 'same'
}

export function compareFigures(before: Sample, after: Sample, isCost: boolean): Change {
  const share = (after.median - before.median) / Math.abs(before.median)
  const noise = Math.hypot(spread(before), spread(after))
  const isApart = before.least > after.most || after.least > before.most
  const verdict =
    !isApart || !(Math.abs(share) > noise) ? 'same' : share < 0 === isCost ? 'better' : 'worse'
  return { share, noise, verdict }
}

/** The columns of the table; rows that only one of them has are omitted. */
export function renderComparison(before: Results, after: Results): string {
  const names = casesOf(after).filter((name) => casesOf(before).includes(name))
  const change = ({ read, isCost }: Figure, name: string) =>
    compareFigures(read(before, name), read(after, name), isCost)
  const shown = figures.filter((figure) =>
    names.some((name) => !Number.isNaN(change(figure, name).share)),
  )
  const table = renderTable(
    ['request', ...shown.map(({ title }) => title)],
    names.map((name) => [name, ...shown.map((figure) => show(change(figure, name)))]),
  )
  return [
    `Since ${before.about.at}: change (noise of both); = is within the noise. "rps bare" and "Envoy bare" show how the machine itself differs.`,
    ...differences(before, after),
    '',
    table,
  ].join('\n')
}

function show({ share, noise, verdict }: Change): string {
  if (Number.isNaN(share)) return '–'
  const sign = share > 0 ? '+' : ''
  const percent = (value: number): string => `${Math.round(100 * value)}%`
  const mark = verdict === 'same' ? '=' : verdict
  return `${mark} ${sign}${percent(share)} (${percent(noise)})`
}

/** Differences of the conditions, which make figures incomparable. */
function differences({ about: before }: Results, { about: after }: Results): readonly string[] {
  const alike = [
    'processor',
    'cores',
    'node',
    'connections',
    'perSecond',
    'envoyThreads',
    'target',
  ] as const
  return alike
    .filter((name) => before[name] !== after[name])
    .map((name) => `Not alike: ${name} was ${before[name]} and is ${after[name]}.`)
}

/** Reads the output of --json. Throws a readable Error if it is invalid. */
export function readResults(text: string): Results {
  const parsed: unknown = JSON.parse(text, (_, value) => (value === null ? Number.NaN : value))
  const { about, series } = parsed as Partial<Results>
  if (about?.version !== 1 || !Array.isArray(series)) {
    throw new Error('It is not what npm run bench --json writes.')
  }
  return parsed as Results
}
