/** The ended keys that a process knows, and which of them its file lacks. No I/O. */

import { dayMs } from '../../formats/time.ts'
import type { EndedKey } from './ended-keys.ts'

/** How long a key is remembered after it has expired, because clocks differ. */
export const expiredKeptMs = dayMs

/** `clock`: milliseconds since the epoch. */
export function createKnownEnds(clock: () => number) {
  const ended = new Map<string, EndedKey>()
  let unwritten: readonly EndedKey[] = []

  function endOf(hash: string): number | undefined {
    const key = ended.get(hash)
    return key && (key.endsAt ?? 0)
  }

  function isNeeded({ expiresAt }: EndedKey): boolean {
    return expiresAt === null || expiresAt + expiredKeptMs > clock()
  }

  function add(key: EndedKey): boolean {
    const isNews = isNeeded(key) && (key.endsAt ?? 0) < (endOf(key.hash) ?? Infinity)
    if (isNews) ended.set(key.hash, key)
    return isNews
  }

  /** Not by `push`: a bulk revocation may have more keys than a function may have arguments. */
  function queue(keys: readonly EndedKey[]): void {
    unwritten = unwritten.concat(keys)
  }

  return {
    /** When a key ends; 0 if it has ended, undefined if no end is known. */
    endOf,
    isNeeded,
    /** Returns whether the key is new, or ends earlier. */
    add,
    /** Queues these for the file, which were added. */
    queue,
    /** Adds these, and queues the new ones. */
    note: (keys: readonly EndedKey[]): void => queue(keys.filter(add)),
    get unwritten(): readonly EndedKey[] {
      return unwritten
    },
    /** The first of the queue are in the file. */
    noteWritten(count: number): void {
      unwritten = unwritten.slice(count)
    },
    /** The hashes of those that have ended by now. */
    endedHashes(): readonly string[] {
      const now = clock()
      return [...ended.keys()].filter((hash) => (endOf(hash) ?? now) <= now)
    },
    forgetExpired(): void {
      for (const key of ended.values()) if (!isNeeded(key)) ended.delete(key.hash)
    },
    all: (): readonly EndedKey[] => [...ended.values()],
    get size(): number {
      return ended.size
    },
  }
}
