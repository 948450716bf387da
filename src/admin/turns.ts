/** Turns for work that may take long: one at a time for each caller, and few at a time altogether. */

export interface TurnsOptions {
  /** Of all callers together. */
  readonly atOnce: number
  /** How long a call waits for its turn, in milliseconds. */
  readonly patienceMs: number
  /** What a call rejects with whose turn does not come. */
  readonly onTooLong: () => Error
}

/** A caller waits among the others with one call only, so that their turns come alike. */
export function createTurns({ atOnce, patienceMs, onTooLong }: TurnsOptions) {
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
     * Does the work once it is the caller's turn. Who is still waiting after a while is answered by
     * `onTooLong` instead, and the work is not begun.
     */
    take<T>(caller: string, work: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        let isTooLate = false
        const timer = setTimeout(() => {
          isTooLate = true
          reject(onTooLong())
        }, patienceMs)
        const begin = async (): Promise<void> => {
          if (isTooLate) return
          clearTimeout(timer)
          // The turn ends when the work has, however it does.
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
    /** Settles once there is room, in the order of the calls. */
    async enter(): Promise<void> {
      if (inside < room) inside += 1
      else await new Promise<void>((enter) => waiting.push(enter))
    },
    // Whoever is next takes the place over.
    leave(): void {
      const next = waiting.shift()
      if (next === undefined) inside -= 1
      else next()
    },
  }
}
