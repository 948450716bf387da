/** Figures per model, within bounds. */

import type { Attributes } from '@opentelemetry/api'
import type { Histogram } from '@opentelemetry/sdk-metrics'
import { getOrAdd } from '../formats/lists.ts'
import { createDurations } from './durations.ts'
import type { Point } from './metric-data.ts'
import { overflowLabels } from './series.ts'

interface Sum {
  value: number
}

/** Maximum number of models with a label of their own; later ones share the label `overflow`. */
const maxModels = 1_000
/** Maximum number of values of the second label per model; the rest are `other`. */
const maxValues = 30

/** A value for each of the first `max` keys; the other keys share one. */
function createBounded<Value>(max: number, begin: () => Value) {
  const known = new Map<string, Value>()
  const others = begin()
  function add(key: string): Value {
    if (known.size >= max) return others
    const value = begin()
    known.set(key, value)
    return value
  }
  return { known, others, of: (key: string): Value => known.get(key) ?? add(key) }
}

/** A sum per model, and per value of `label` if given. */
export function createModelCounter(label?: string) {
  const models = createBounded(maxModels, () => new Map<string, Sum>())

  function beginValue(sums: Map<string, Sum>, value: string): Sum {
    const name = sums.size < maxValues ? value : 'other'
    return getOrAdd(sums, name, () => ({ value: 0 }))
  }

  function toPoints(sums: ReadonlyMap<string, Sum>, attributes: Attributes): readonly Point[] {
    return [...sums].map(([second, { value }]) => ({
      attributes: label === undefined ? attributes : { ...attributes, [label]: second },
      value,
    }))
  }

  return {
    add(model: string, value: number, second = ''): void {
      const sums = models.of(model)
      const sum = sums.get(second) ?? beginValue(sums, second)
      sum.value += value
    },
    points: (): readonly Point[] => [
      ...[...models.known].flatMap(([model, sums]) => toPoints(sums, { model })),
      ...toPoints(models.others, overflowLabels),
    ],
  }
}

/** A histogram for each of the first values of a label; the others share one. */
export function createLabelledDurations(label: string, bounds: readonly number[], maxSize: number) {
  const { known, others, of } = createBounded(maxSize, () => createDurations(bounds))
  return {
    observe: (value: string, milliseconds: number): void => of(value).observe(milliseconds),
    points(): readonly Point<Histogram>[] {
      const rest = others.read()
      return [
        ...[...known].map(([value, each]) => ({
          attributes: { [label]: value },
          value: each.read(),
        })),
        ...(rest.count > 0 ? [{ attributes: overflowLabels, value: rest }] : []),
      ]
    },
  }
}
