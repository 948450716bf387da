/** Figures per user, subscription and model, limited in number; the rest is counted under a separate label. */

import { getOrAdd } from '../formats/lists.ts'

/** The figures of one user, subscription and model, since it was added. */
export interface Series<Figures> {
  readonly user: string
  readonly subscription: string
  readonly model: string
  /** The group that pays; undefined if groups are not a label. */
  readonly group: string | undefined
  readonly figures: Figures
  /** The generation in which it was last used. */
  usedIn: number
}

export type SeriesSet<Figures> = ReturnType<typeof createSeries<Figures>>

/**
 * At most this many series, each starting with the figures from `begin`. If there is no room for
 * another, series that were unused for a whole generation are removed. One that comes back restarts
 * at 0, as after a restart, which readers of counters expect; displayed counters never decrease.
 */
export function createSeries<Figures>(maxSize: number, begin: () => Figures) {
  const bySubscription = new Map<string, Map<string, Map<string, Series<Figures>>>>()
  const overflow = begin()
  let size = 0
  let generation = 0
  let droppedIn = -1

  function add(
    who: string,
    user: string,
    subscription: string,
    model: string,
    group: string | undefined,
  ): Figures {
    if (size >= maxSize) dropQuiet()
    if (size >= maxSize) return overflow
    const byModel = getOrAdd(bySubscription, subscription, () => new Map())
    const figures = begin()
    getOrAdd(byModel, model, () => new Map()).set(who, {
      user,
      subscription,
      model,
      group,
      figures,
      usedIn: generation,
    })
    size += 1
    return figures
  }

  /** Checks all series, so at most once per generation. */
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

  function* all(): Generator<Series<Figures>> {
    for (const byModel of bySubscription.values()) {
      for (const byUser of byModel.values()) yield* byUser.values()
    }
  }

  return {
    /**
     * The figures to count in. Takes three look-ups; only new series allocate an object. Either all
     * series of a set have a group, or none.
     */
    find(user: string, subscription: string, model: string, group?: string): Figures {
      // A group contains no line break.
      const who = group === undefined ? user : `${group}\n${user}`
      const series = bySubscription.get(subscription)?.get(model)?.get(who)
      if (series === undefined) return add(who, user, subscription, model, group)
      series.usedIn = generation
      return series.figures
    },
    /** All series. All others are counted in `overflow`. */
    get all(): Iterable<Series<Figures>> {
      return all()
    },
    get size(): number {
      return size
    },
    /** Figures of everything for which there was no room. */
    overflow,
    /** Ends a generation: a series unused for two of them may be removed. */
    age(): void {
      generation += 1
    },
  }
}

export const overflowLabels = { overflow: 'true' } as const
