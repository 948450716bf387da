/**
 * The estimators of a process: one for each model of each user of a subscription, so that nobody's answers decide what
 * others may do at once, or pay for what broke off.
 */

import { createEstimator, type Estimator } from './estimator.ts'

export type Estimators = ReturnType<typeof createEstimators>

/** Some 10 KB each, 20 at most. */
const defaultMax = 2_000

/** Beyond `max` the one that was used least recently is forgotten. */
export function createEstimators(max = defaultMax) {
  const known = new Map<string, { owner: string; model: string; estimator: Estimator }>()

  function of(owner: string, model: string): Estimator {
    const name = `${owner}\n${model}`
    const found = known.get(name)
    if (found === undefined && known.size >= max) {
      const [oldest] = known.keys()
      if (oldest !== undefined) known.delete(oldest)
    }
    const own = found ?? { owner, model, estimator: createEstimator() }
    known.delete(name)
    known.set(name, own)
    return own.estimator
  }

  return {
    /** Creates it if there is none. `owner`: `ownerOf`; `model`: `<namespace>/<name>`. */
    of,
    /** The same without forgetting another one for it; undefined: there is no room. */
    ifRoom(owner: string, model: string) {
      const found = known.get(`${owner}\n${model}`)
      if (found !== undefined) return found.estimator
      return known.size < max ? of(owner, model) : undefined
    },
    all: () => known.values(),
  }
}
