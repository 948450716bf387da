import { type Sample, spread } from './statistics.ts'

/** A figure as text: the median, ± half of the range. */
export function showFigure(figure: Sample, unit: string): string {
  if (Number.isNaN(figure.median)) return '–'
  if (unit === 'ms') return `${showMs(figure.median)} ±${showMs((figure.most - figure.least) / 2)}`
  const value = showNumber(figure.median, unit === 'times' ? 2 : 0)
  return `${value} ±${Math.round(100 * spread(figure))}%`
}

export function showMs(ms: number): string {
  if (Number.isNaN(ms)) return '–'
  return showNumber(ms, Math.abs(ms) < 10 ? 2 : 0)
}

export function showNumber(value: number, digits = 0): string {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits }
  return value.toLocaleString('en', options)
}
