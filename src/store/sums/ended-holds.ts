/** Holds of requests that have ended, until a store has ended them too. */

import type { EndedHolds } from './sum-store.ts'

/** Of one hash tag. */
export function createEndedHolds() {
  /** By the first of their keys, those that have waited longest first. */
  const ended = new Map<string, { readonly keys: readonly string[]; readonly ids: Set<string> }>()

  return {
    /** Whose holds are to end: users of subscriptions. */
    get size(): number {
      return ended.size
    },
    add(keys: readonly string[], id: string): void {
      const [name = ''] = keys
      const found = ended.get(name)
      if (found === undefined) ended.set(name, { keys, ids: new Set([id]) })
      else found.ids.add(id)
    },
    /** The next ones, at most this many. */
    next(most: number): readonly EndedHolds[] {
      let room = most
      const next: EndedHolds[] = []
      for (const { keys, ids } of ended.values()) {
        if (room <= 0) break
        next.push({ keys, ids: [...ids].slice(0, room) })
        room -= ids.size
      }
      return next
    },
    /** The store has ended these. */
    forget(sent: readonly EndedHolds[]): void {
      for (const { keys, ids } of sent) {
        const [name = ''] = keys
        const left = ended.get(name)?.ids
        for (const id of ids) left?.delete(id)
        if (left?.size === 0) ended.delete(name)
      }
    },
  }
}
