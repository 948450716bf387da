/** Calls and tokens of each user, subscription and model, within a bound. */

/** What one user has done with one model under one subscription, since it is in the series. */
export interface CallSeries {
  readonly labels: { readonly user: string; readonly subscription: string; readonly model: string }
  calls: number
  tokens: number
  /** The generation in which it was last found. */
  usedIn: number
}

export interface CallSeriesSet {
  /** The series to count in. Ready in three look-ups; an object is made for a new one alone. */
  find(user: string, subscription: string, model: string): { calls: number; tokens: number }
  /** All of them. Those that are not among them have counted in `overflow`. */
  readonly all: Iterable<CallSeries>
  readonly size: number
  /** What is counted once there is no room for a series. */
  readonly overflow: { readonly calls: number; readonly tokens: number }
  /** Ends a generation: what two of them have not seen used may make room for another. */
  age(): void
}

/**
 * At most so many series. When there is no room for one more, those go that were quiet for a whole
 * generation. One that comes back begins at 0, as after a restart, which is what readers of
 * counters expect; what is shown never goes down.
 */
export function createCallSeries(most: number): CallSeriesSet {
  const bySubscription = new Map<string, Map<string, Map<string, CallSeries>>>()
  const overflow = { calls: 0, tokens: 0 }
  let size = 0
  let generation = 0
  let droppedIn = -1

  function begin(user: string, subscription: string, model: string): typeof overflow {
    if (size >= most) dropQuiet()
    if (size >= most) return overflow
    const byModel = getOrPut(bySubscription, subscription)
    const series = {
      labels: { user, subscription, model },
      calls: 0,
      tokens: 0,
      usedIn: generation,
    }
    getOrPut(byModel, model).set(user, series)
    size += 1
    return series
  }

  /** Looks through all of them, so once in a generation at most. */
  function dropQuiet(): void {
    if (droppedIn === generation) return
    droppedIn = generation
    for (const [subscription, byModel] of bySubscription) {
      for (const [model, byUser] of byModel) {
        for (const [user, { usedIn }] of byUser) {
          if (usedIn < generation - 1 && byUser.delete(user)) size -= 1
        }
        if (byUser.size === 0) byModel.delete(model)
      }
      if (byModel.size === 0) bySubscription.delete(subscription)
    }
  }

  function* all(): Generator<CallSeries> {
    for (const byModel of bySubscription.values()) {
      for (const byUser of byModel.values()) yield* byUser.values()
    }
  }

  return {
    find(user, subscription, model) {
      const series = bySubscription.get(subscription)?.get(model)?.get(user)
      if (series === undefined) return begin(user, subscription, model)
      series.usedIn = generation
      return series
    },
    get all() {
      return all()
    },
    get size() {
      return size
    },
    overflow,
    age() {
      generation += 1
    },
  }
}

function getOrPut<Key, Inner>(outer: Map<string, Map<Key, Inner>>, key: string): Map<Key, Inner> {
  let inner = outer.get(key)
  if (inner === undefined) {
    inner = new Map()
    outer.set(key, inner)
  }
  return inner
}
