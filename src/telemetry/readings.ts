/** Figures that are read from the parts of the service on demand. */

import { ValueType } from '@opentelemetry/api'
import { type CounterName, type GaugeName, gauges } from './catalogue.ts'
import { counterData, gaugeData, type Point } from './metric-data.ts'

/** The label of a reading with several figures. */
const labels: Partial<Record<Name, string>> = {
  tollgate_checks: 'decision',
  tollgate_table_misses: 'reason',
  tollgate_access_reviews: 'result',
  tollgate_revocations: 'state',
  tollgate_build_info: 'version',
}

type Name = GaugeName | CounterName

/** Their infinity is a figure: that there is no bound. */
const unbounded: ReadonlySet<Name> = new Set(['tollgate_overshoot_bound_tokens'])

/**
 * The function for each reading that exists, in order of reading; all describe the moment of the call. A map has a
 * figure for each value of the label. Undefined, or a number that is not finite, gives no figure, apart from `unbounded`;
 * true is shown as 1.
 */
export type Sources = Readonly<
  Partial<Record<Name, () => number | boolean | undefined | ReadonlyMap<string, number>>>
>

type Read = NonNullable<Sources[Name]>

/** What these sources read now, and the errors of those that cannot be read. */
export function readingsOf(sources: Sources) {
  const errors: unknown[] = []
  const readings = (Object.entries(sources) as [Name, Read][]).map(([name, read]) => {
    const points = pointsOf(name, read, errors)
    return isGauge(name) ? gaugeData(name, points) : counterData(name, points, ValueType.DOUBLE)
  })
  return { readings, errors }
}

function isGauge(name: Name): name is GaugeName {
  return Object.hasOwn(gauges, name)
}

function pointsOf(name: Name, read: Read, errors: unknown[]): readonly Point[] {
  try {
    const value = read()
    if (typeof value !== 'object') {
      const figure = Number(value)
      const isFigure = Number.isFinite(figure) || (figure === Infinity && unbounded.has(name))
      return isFigure ? [{ attributes: {}, value: figure }] : []
    }
    const label = labels[name] ?? ''
    return [...value].map(([of, figure]) => ({ attributes: { [label]: of }, value: figure }))
  } catch (error) {
    errors.push(error)
    return []
  }
}
