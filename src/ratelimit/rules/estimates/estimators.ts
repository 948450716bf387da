/**
 * The estimators of a process: one for each subscription, user and model, so that the responses of one user do not
 * determine how many requests others may have in progress, or their charges for broken streams.
 */

import { getOrAdd } from '../../../formats/lists.ts'
import { createEstimator, type Estimator } from './estimator.ts'

export type Estimators = ReturnType<typeof createEstimators>

/** Each takes 4 to 76 KB, depending on the size classes that it has seen. */
const defaultMax = 2_000

/** A known estimator, and whether it was used since its last turn for eviction. */
interface Known {
  readonly owner: string
  readonly model: string
  readonly estimator: Estimator
  isUsed: boolean
}

/** If there are `max`, creating another evicts one that was not used recently. */
export function createEstimators(max = defaultMax) {
  const byOwner = new Map<string, Map<string, Known>>()
  /** In the order of their turns for eviction. */
  const known = new Set<Known>()

  function of(owner: string, model: string): Estimator {
    const found = byOwner.get(owner)?.get(model)
    if (found !== undefined) {
      found.isUsed = true
      return found.estimator
    }
    if (known.size >= max) forgetOne()
    const own = { owner, model, estimator: createEstimator(), isUsed: false }
    getOrAdd(byOwner, owner, () => new Map()).set(model, own)
    known.add(own)
    return own.estimator
  }

  /** Evicts an estimator. A used one gets a second chance (CLOCK), so that use only sets a flag. */
  function forgetOne(): void {
    for (const each of known) {
      known.delete(each)
      if (!each.isUsed) {
        forget(each)
        return
      }
      each.isUsed = false
      known.add(each)
    }
  }

  function forget({ owner, model }: Known): void {
    const own = byOwner.get(owner)
    own?.delete(model)
    if (own?.size === 0) byOwner.delete(owner)
  }

  return {
    /** Returns an estimator, creating it if there is none. `owner`: from `estimatorOwner`; `model`: `<namespace>/<name>`. */
    of,
    /** Like `of`, without evicting another; returns undefined if there is no room. */
    ifRoom(owner: string, model: string) {
      const isKnown = byOwner.get(owner)?.has(model) === true
      return isKnown || known.size < max ? of(owner, model) : undefined
    },
    all: (): Iterable<Known> => known,
  }
}
