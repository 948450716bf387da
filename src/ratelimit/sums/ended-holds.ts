/** Holds of requests that have ended, until a store has ended them too. */

import type { EndedHolds } from './sum-store.ts'

/** By the first of their keys. */
type Ended = Map<
  string,
  {
    readonly keys: readonly string[]
    readonly ids: Set<string>
    readonly last: string[]
    /** Ids that `last` no longer has, and `older` has not returned yet. */
    readonly older: string[]
  }
>

/** Maximum per user and generation: only the writer knows which holds the store has ended. */
const mostLast = 16

/** For one hash tag. */
export function createEndedHolds() {
  /** The older generation first. */
  let generations: readonly [Ended, Ended] = [new Map(), new Map()]
  let turnedAt = Number.NEGATIVE_INFINITY

  return {
    /** Number of users of subscriptions whose holds must end, counted in each generation. */
    get size(): number {
      return generations[0].size + generations[1].size
    },
    /** `now`: a monotonic clock. A hold is forgotten after `keptMs` to twice that. */
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
        // Bounded, because all ids would be copied for each request of a user who has many.
        if (found.last.push(id) <= mostLast) return
        const first = found.last.shift() as string
        if (found.ids.has(first)) found.older.push(first)
      }
    },
    /** The next holds to end, at most this many. */
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
    /** The latest ended holds of these keys. */
    last([name = '']: readonly string[]): readonly string[] {
      return generations.flatMap((ended) => {
        const found = ended.get(name)
        return found === undefined ? [] : found.last.filter((id) => found.ids.has(id))
      })
    },
    /** Some ended holds of these keys that `last` no longer has; each is returned once. */
    older([name = '']: readonly string[]): readonly string[] {
      return generations.flatMap((ended) => ended.get(name)?.older.splice(0, mostLast) ?? [])
    },
    /** Call it when the store has ended these holds. */
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
