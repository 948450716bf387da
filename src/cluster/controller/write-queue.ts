/**
 * The objects that wait to be compared with the cluster. Urgent ones come first: one of thousands of models must not
 * wait behind a change of all, nor behind thousands of changes before it.
 */

/** Beyond so many, urgent ones wait with the others. */
const maxUrgent = 100

export function createWriteQueue<Target extends { readonly path: string }>() {
  const urgent = new Map<string, Target>()
  const routine = new Map<string, Target>()

  return {
    get size(): number {
      return urgent.size + routine.size
    },
    /** For each path the last call counts. */
    add(targets: readonly Target[], isUrgent: boolean): void {
      const isFirst = isUrgent && targets.length <= maxUrgent
      for (const target of targets) {
        if (isFirst) routine.delete(target.path)
        const queue = isFirst || urgent.has(target.path) ? urgent : routine
        queue.set(target.path, target)
      }
      for (const [path, target] of urgent) {
        if (urgent.size <= maxUrgent) break
        urgent.delete(path)
        routine.set(path, target)
      }
    },
    /** Adds it, unless its path waits already. */
    addAgain(target: Target): void {
      const { path } = target
      if (!urgent.has(path) && !routine.has(path)) routine.set(path, target)
    },
    /** Removes the next one and returns it. */
    take(): Target | undefined {
      const queue = urgent.size > 0 ? urgent : routine
      const [next] = queue.values()
      if (next !== undefined) queue.delete(next.path)
      return next
    },
  }
}
