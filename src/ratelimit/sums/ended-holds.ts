/** Holds of requests that have ended, until a store has ended them too. */

import type { EndedHolds } from './sum-store.ts'

/** By the first of their keys. */
type Ended = Map<
  string,
  {
    readonly keys: readonly string[]
    readonly ids: Set<string>
    readonly last: string[]
    /** What was among the last ones, and was not asked for yet. */
    readonly older: string[]
  }
>

/** Of a user in a generation: a process that does not write can't know which have ended in the store, too. */
const mostLast = 16

/** Of one hash tag. */
export function createEndedHolds() {
  /** Those that have waited longest first. */
  let generations: readonly [Ended, Ended] = [new Map(), new Map()]
  let turnedAt = Number.NEGATIVE_INFINITY

  return {
    /** Whose holds are to end: users of subscriptions. */
    get size(): number {
      return generations[0].size + generations[1].size
    },
    /** `now`: a monotonic clock. What has waited for `keptMs` is forgotten, within twice that. */
    add(keys: readonly string[], id: string, now: number, keptMs: number): void {
      if (now - turnedAt >= keptMs) {
        turnedAt = now
        generations = [generations[1], new Map()]
      }
      const [name = ''] = keys
      const [, ended] = generations
      const found = ended.get(name)
      if (found === undefined) ended.set(name, { keys, ids: new Set([id]), last: [id], older: [] })
      else if (!found.ids.has(id)) {
        found.ids.add(id)
        // A copy of all would be made for each request of somebody who has many.
        if (found.last.push(id) <= mostLast) return
        const first = found.last.shift() as string
        if (found.ids.has(first)) found.older.push(first)
      }
    },
    /** The next ones, at most this many. */
    next(most: number): readonly EndedHolds[] {
      let room = most
      const next: EndedHolds[] = []
      for (const ended of generations) {
        for (const { keys, ids } of ended.values()) {
          if (room <= 0) return next
          next.push({ keys, ids: [...ids].slice(0, room) })
          room -= ids.size
        }
      }
      return next
    },
    /** Of these keys, the last ones. */
    last([name = '']: readonly string[]): readonly string[] {
      return generations.flatMap((ended) => {
        const found = ended.get(name)
        return found === undefined ? [] : found.last.filter((id) => found.ids.has(id))
      })
    },
    /** Of these keys, some that were among the last ones, each once. */
    older([name = '']: readonly string[]): readonly string[] {
      return generations.flatMap((ended) => ended.get(name)?.older.splice(0, mostLast) ?? [])
    },
    /** The store has ended these. */
    forget(sent: readonly EndedHolds[]): void {
      for (const { keys, ids } of sent) {
        const [name = ''] = keys
        for (const ended of generations) {
          const left = ended.get(name)?.ids
          for (const id of ids) left?.delete(id)
          if (left?.size === 0) ended.delete(name)
        }
      }
    },
  }
}
