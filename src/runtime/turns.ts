/** Limits slow work: one task at a time for each caller, and few in total. */

export interface TurnsOptions {
  /** The most tasks of all callers together. */
  readonly atOnce: number
  /** How long a call waits for its turn, in milliseconds. */
  readonly timeoutMs: number
  /** The error of a call whose turn does not come in time. */
  readonly onTooLong: () => Error
}

/** A caller competes with only one call at a time, so that callers get equal turns. */
export function createTurns({ atOnce, timeoutMs, onTooLong }: TurnsOptions) {
  const all = createGate(atOnce)
  const own = new Map<string, Gate>()

  async function pass<T>(caller: string, work: () => Promise<T>): Promise<T> {
    let gate = own.get(caller)
    if (gate === undefined) {
      gate = createGate(1)
      own.set(caller, gate)
    }
    await gate.enter()
    try {
      await all.enter()
      try {
        return await work()
      } finally {
        all.leave()
      }
    } finally {
      gate.leave()
      if (gate.isUnused) own.delete(caller)
    }
  }

  return {
    /**
     * Runs the work when it is the caller's turn. A call that waits too long rejects with
     * `onTooLong`, and its work is not started.
     */
    take<T>(caller: string, work: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        let isTooLate = false
        const timer = setTimeout(() => {
          isTooLate = true
          reject(onTooLong())
        }, timeoutMs)
        const begin = async (): Promise<void> => {
          if (isTooLate) return
          clearTimeout(timer)
          // The turn ends when the work has ended, even with an error.
          await work().then(resolve, reject)
        }
        void pass(caller, begin)
      })
    },
  }
}

type Gate = ReturnType<typeof createGate>

function createGate(room: number) {
  const waiting: (() => void)[] = []
  let inside = 0
  return {
    get isUnused(): boolean {
      return inside === 0
    },
    /** Resolves when there is room, in the order of the calls. */
    async enter(): Promise<void> {
      if (inside < room) inside += 1
      else await new Promise<void>((enter) => waiting.push(enter))
    },
    // The next caller takes over the place.
    leave(): void {
      const next = waiting.shift()
      if (next === undefined) inside -= 1
      else next()
    },
  }
}
