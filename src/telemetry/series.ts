/** Figures of each user, subscription and model, within a bound. */

/** Figures of one user, subscription and model, since they are in the set. */
export interface Series<Figures> {
  readonly user: string
  readonly subscription: string
  readonly model: string
  /** The group that pays; undefined where groups are not told apart. */
  readonly group: string | undefined
  readonly figures: Figures
  /** The generation in which it was last found. */
  usedIn: number
}

export type SeriesSet<Figures> = ReturnType<typeof createSeries<Figures>>

/**
 * At most so many series, each of which begins with the figures that `begin` makes. When there is no
 * room for one more, those go that were quiet for a whole generation. One that comes back begins
 * anew, as after a restart, which is what readers of counters expect; what is shown never goes down.
 */
export function createSeries<Figures>(most: number, begin: () => Figures) {
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
    if (size >= most) dropQuiet()
    if (size >= most) return overflow
    const byModel = getOrPut(bySubscription, subscription)
    const figures = begin()
    getOrPut(byModel, model).set(who, {
      ...{ user, subscription, model, group, figures },
      usedIn: generation,
    })
    size += 1
    return figures
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

  function* all(): Generator<Series<Figures>> {
    for (const byModel of bySubscription.values()) {
      for (const byUser of byModel.values()) yield* byUser.values()
    }
  }

  return {
    /**
     * The figures to count in. Ready in three look-ups; an object is made for new ones alone. Whether a
     * group is given has to be the same for all of a set.
     */
    find(user: string, subscription: string, model: string, group?: string): Figures {
      // A group holds no line break.
      const who = group === undefined ? user : `${group}\n${user}`
      const series = bySubscription.get(subscription)?.get(model)?.get(who)
      if (series === undefined) return add(who, user, subscription, model, group)
      series.usedIn = generation
      return series.figures
    },
    /** All of them. Those that are not among them have counted in `overflow`. */
    get all(): Iterable<Series<Figures>> {
      return all()
    },
    get size(): number {
      return size
    },
    /** What is counted once there is no room for a series. */
    overflow,
    /** Ends a generation: what two of them have not seen used may make room for another. */
    age(): void {
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
