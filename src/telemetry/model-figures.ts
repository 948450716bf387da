/** Figures per model, within bounds. */

import type { Attributes } from '@opentelemetry/api'
import type { Histogram } from '@opentelemetry/sdk-metrics'
import { createDurations, type Durations } from './durations.ts'
import type { Point } from './metric-data.ts'
import { overflowLabels } from './series.ts'

interface Sum {
  value: number
}

/** Maximum number of models with a label of their own; later ones share the label `overflow`. */
const maxModels = 1_000
/** Maximum number of values of the second label per model; the rest are `other`. */
const maxValues = 30

/** A sum per model, and per value of `label` if given. */
export function createModelCounter(label?: string) {
  const byModel = new Map<string, Map<string, Sum>>()
  const overflow = new Map<string, Sum>()

  function begin(model: string): Map<string, Sum> {
    if (byModel.size >= maxModels) return overflow
    const sums = new Map<string, Sum>()
    byModel.set(model, sums)
    return sums
  }

  function beginValue(sums: Map<string, Sum>, value: string): Sum {
    const name = sums.size < maxValues ? value : 'other'
    const sum = sums.get(name) ?? { value: 0 }
    sums.set(name, sum)
    return sum
  }

  function toPoints(sums: ReadonlyMap<string, Sum>, attributes: Attributes): readonly Point[] {
    return [...sums].map(([second, { value }]) => ({
      attributes: label === undefined ? attributes : { ...attributes, [label]: second },
      value,
    }))
  }

  return {
    add(model: string, value: number, second = ''): void {
      const sums = byModel.get(model) ?? begin(model)
      const sum = sums.get(second) ?? beginValue(sums, second)
      sum.value += value
    },
    points: (): readonly Point[] => [
      ...[...byModel].flatMap(([model, sums]) => toPoints(sums, { model })),
      ...toPoints(overflow, overflowLabels),
    ],
  }
}

/** A histogram for each of the first values of a label; the others share one. */
export function createLabelledDurations(label: string, bounds: readonly number[], maxSize: number) {
  const known = new Map<string, Durations>()
  const others = createDurations(bounds)

  function begin(value: string): Durations {
    if (known.size >= maxSize) return others
    const fresh = createDurations(bounds)
    known.set(value, fresh)
    return fresh
  }

  return {
    observe(value: string, milliseconds: number): void {
      const durations = known.get(value) ?? begin(value)
      durations.observe(milliseconds)
    },
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
