/** The results as a page: bars with their spread, and lines of latency. One file, no scripts. */

import { hugeCase } from './cases.ts'
import { figureOf } from './figures.ts'
import { shares } from './load/plan.ts'
import { renderResults } from './report.ts'
import {
  casesOf,
  type Mode,
  perSecond,
  type Results,
  type Run,
  runsOf,
  subjectsOf,
} from './results.ts'
import { showMs, showNumber } from './show-figure.ts'
import { median } from './statistics.ts'

const chartWidth = 560
const row = 18
const nameWidth = 150
const colours = ['#8a8f98', '#2563eb', '#d97706', '#059669', '#dc2626', '#7c3aed']

export function renderHtml(results: Results): string {
  const [first = ''] = casesOf(results)
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tollgate bench, ${escapeHtml(results.about.at)}</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #1f2328; background: #fff }
pre { overflow-x: auto; background: #f6f8fa; padding: 1em; font-size: 12px }
section { display: inline-block; vertical-align: top; margin: 0 2em 1.5em 0 }
h1 { font-size: 20px } h2 { font-size: 15px } text { font: 11px system-ui, sans-serif; fill: #1f2328 }
</style>
<h1>tollgate bench</h1>
<p>${escapeHtml(results.about.at)}${results.about.target ? `, ${escapeHtml(results.about.target)}` : ''}</p>
${bars(results, 'CPU of Envoy, µs a request', 'closed', (run) => run.envoyMicros)}
${bars(results, 'CPU of the service, µs a request', 'closed', (run) => run.serviceMicros)}
${bars(results, `CPU of the service at ${results.about.perSecond}/s`, 'open', (run) => run.serviceMicros)}
${bars(results, 'Answers a second', 'closed', perSecond)}
${casesOf(results)
  .filter((name) => name !== hugeCase.name)
  .flatMap((name) => [lines(results, name, 'closed'), lines(results, name, 'open')])
  .join('\n')}
<h2>All figures</h2>
<pre>${escapeHtml(renderResults(results))}</pre>
<p>Bars are medians; the thin line goes from the lowest run to the highest. Yardsticks answer Check and
do nothing else; they were measured with ${escapeHtml(first)}.</p>
</html>
`
}

function bars(results: Results, title: string, mode: Mode, read: (run: Run) => number): string {
  const rows = casesOf(results).flatMap((name) =>
    subjectsOf(results)
      .map((subject) => ({
        name,
        subject,
        figure: figureOf({ results, name, mode, subject }, read),
      }))
      // The huge body would make all other bars invisible.
      .filter(({ figure }) => figure.median > 0 && name !== hugeCase.name),
  )
  if (rows.length === 0) return ''
  const most = Math.max(...rows.map(({ figure }) => figure.most))
  const x = (value: number): number => nameWidth + (value / most) * (chartWidth - nameWidth - 60)
  const drawn = rows.map(({ name, subject, figure }, i) => {
    const y = i * row
    const middle = y + row / 2
    return (
      `<text x="0" y="${middle + 4}">${rows[i - 1]?.name === name ? '' : escapeHtml(name)}</text>` +
      `<rect x="${nameWidth}" y="${y + 2}" width="${(x(figure.median) - nameWidth).toFixed(1)}" height="${row - 5}" fill="${colourOf(results, subject)}"><title>${escapeHtml(subject)}</title></rect>` +
      `<path d="M${x(figure.least).toFixed(1)} ${middle}H${x(figure.most).toFixed(1)}" stroke="#1f2328"/>` +
      `<text x="${(x(figure.most) + 5).toFixed(1)}" y="${middle + 4}">${showNumber(figure.median)}</text>`
    )
  })
  const subjects = [...new Set(rows.map(({ subject }) => subject))]
  return section(title, rows.length * row, drawn.join(''), legend(results, subjects))
}

/**
 * Latency from the median to the maximum; both axes are logarithmic, the lower one by the fraction
 * beyond.
 */
function lines(results: Results, name: string, mode: Mode): string {
  const height = 200
  const known = subjectsOf(results)
    .map((subject) => ({ subject, runs: runsOf(results, name, mode, subject) }))
    .filter(({ runs }) => runs.length > 0)
    .map(({ subject, runs }) => ({
      subject,
      values: shares.map((_, at) => median(runs.map((run) => run.latencyMs[at] ?? Number.NaN))),
    }))
  const all = known.flatMap(({ values }) => values).filter((value) => value > 0)
  if (all.length === 0) return ''
  const [low, high] = [Math.log10(Math.min(...all)), Math.log10(Math.max(...all))]
  const y = (ms: number): number =>
    10 + (height - 30) * (1 - (Math.log10(ms) - low) / Math.max(high - low, 0.01))
  const x = (at: number): number => 50 + (at * (chartWidth - 120)) / (shares.length - 1)
  const ticks = decades(low, high).map(
    (ms) =>
      `<path d="M50 ${y(ms).toFixed(1)}H${chartWidth - 70}" stroke="#d0d7de"/><text x="0" y="${(y(ms) + 4).toFixed(1)}">${showMs(ms)} ms</text>`,
  )
  const names = shares.map(
    (share, at) =>
      `<text x="${x(at) - 12}" y="${height - 2}">${share === 1 ? 'max' : `p${100 * share}`}</text>`,
  )
  const drawn = known.map(({ subject, values }) => {
    const points = values.map((ms, at) => `${x(at).toFixed(1)},${y(ms).toFixed(1)}`).join(' ')
    return `<polyline points="${points}" fill="none" stroke="${colourOf(results, subject)}" stroke-width="2"/>`
  })
  const title = `${name}: latency, ${mode === 'closed' ? 'closed loop' : `${results.about.perSecond}/s`}`
  const subjects = known.map(({ subject }) => subject)
  return section(title, height, [...ticks, ...names, ...drawn].join(''), legend(results, subjects))
}

/** 1, 2 and 5 of each power of ten in the range. */
function decades(low: number, high: number): readonly number[] {
  const powers = Array.from({ length: 10 }, (_, i) => i - 4)
  return powers
    .flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power))
    .filter((ms) => Math.log10(ms) >= low && Math.log10(ms) <= high)
}

function section(title: string, height: number, content: string, below: string): string {
  return `<section><h2>${escapeHtml(title)}</h2><svg width="${chartWidth}" height="${height}" role="img" aria-label="${escapeHtml(title)}">${content}</svg><div>${below}</div></section>`
}

function legend(results: Results, subjects: readonly string[]): string {
  return subjects
    .map(
      (subject) =>
        `<span style="color:${colourOf(results, subject)}">■</span> ${escapeHtml(subject === 'bare' ? 'bare Envoy' : subject)}`,
    )
    .join(' &nbsp; ')
}

function colourOf(results: Results, subject: string): string {
  return colours[subjectsOf(results).indexOf(subject) % colours.length] as string
}

function escapeHtml(text: string): string {
  const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replace(/[&<>"]/g, (character) => entities[character] as string)
}
