/** The estimators of a process: one for each subscription and model. */

import { createEstimator, type Estimator } from './estimator.ts'

export interface Estimators {
  /** Creates it if there is none. `model` is `<namespace>/<name>`. */
  of(subscription: string, model: string): Estimator
}

/** Some 20 KB each. */
const defaultMost = 1_000

/** Beyond `most` the one that was created first is forgotten. */
export function createEstimators(most = defaultMost): Estimators {
  const bySubscription = new Map<string, Estimator>()
  return {
    of(subscription, model) {
      const key = `${subscription}\n${model}`
      const found = bySubscription.get(key)
      if (found !== undefined) return found
      const [oldest] = bySubscription.keys()
      if (oldest !== undefined && bySubscription.size >= most) bySubscription.delete(oldest)
      const created = createEstimator()
      bySubscription.set(key, created)
      return created
    },
  }
}
