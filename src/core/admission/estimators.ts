/** The estimators of a process: one for each subscription and model. */

import { createEstimator, type Estimator } from './estimator.ts'

export interface Estimators {
  /** Creates it if there is none. `model` is `<namespace>/<name>`. */
  of(subscription: string, model: string): Estimator
  all(): Iterable<{
    readonly subscription: string
    readonly model: string
    readonly estimator: Estimator
  }>
}

/** Some 20 KB each. */
const defaultMax = 1_000

/** Beyond `max` the oldest one of the oldest subscription is forgotten. */
export function createEstimators(max = defaultMax): Estimators {
  /** By subscription, then by model. */
  const all = new Map<string, Map<string, Estimator>>()
  let size = 0

  function forgetOne(): void {
    for (const [subscription, models] of all) {
      const [oldest] = models.keys()
      if (oldest !== undefined) models.delete(oldest)
      if (models.size === 0) all.delete(subscription)
      size -= 1
      return
    }
  }

  return {
    *all() {
      for (const [subscription, models] of all) {
        for (const [model, estimator] of models) yield { subscription, model, estimator }
      }
    },
    of(subscription, model) {
      const found = all.get(subscription)?.get(model)
      if (found !== undefined) return found
      if (size >= max) forgetOne()
      const created = createEstimator()
      const models = all.get(subscription) ?? new Map<string, Estimator>()
      all.set(subscription, models.set(model, created))
      size += 1
      return created
    },
  }
}
