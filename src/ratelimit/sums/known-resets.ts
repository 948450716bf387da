/** The resets of each counter that a process of a gateway knows. */

import type { CounterReset, Resets } from '../rules/windows.ts'

/** Maximum number of resets per counter; windows that ended before these are no longer read. */
const maxResets = 4

/** `known`: the resets known at the start. */
export function createKnownResets(known: Resets = new Map()) {
  const all = new Map<string, readonly CounterReset[]>()

  function note(key: string, reset: CounterReset): void {
    const before = all.get(key) ?? []
    if (before.some(({ at }) => at === reset.at)) return
    const latest = [...before, reset].toSorted((a, b) => a.at - b.at).slice(-maxResets)
    all.set(key, latest)
  }

  function noteAll(resets: Resets): void {
    for (const [key, each] of resets) for (const reset of each) note(key, reset)
  }

  noteAll(known)
  /** `all` is live: it includes each reset once it is noted. */
  return { all: all as Resets, note, noteAll }
}
