/**
 * The keys that a process remembers: an LRU of small entries. Equal strings and equal lists of
 * groups are kept once as far as that is cheap to find out, since many keys share them.
 */

import { LRUCache } from 'lru-cache'
import type { ApiKeyStatus } from '../../core/api-key.ts'
import type { KnownKey } from '../api-keys.ts'

/** A key as it is kept. */
export interface RememberedKey extends KnownKey {
  /** When it is to be read again, in milliseconds of whoever sets it; never, when not said. */
  readonly dueAt: number
}

interface Entry extends RememberedKey {
  /** How often everything had been put in doubt when it was read. */
  readonly round: number
}

/** Strings and lists of groups that are looked for among; beyond, the search begins anew. */
const mostShared = 65_536

const statuses: Record<ApiKeyStatus, ApiKeyStatus> = {
  active: 'active',
  revoked: 'revoked',
  expired: 'expired',
}

/** Remembers at most so many keys; those used longest ago make room. */
export function createKnownKeys(entries: number) {
  const kept = new LRUCache<string, Entry>({ max: entries })
  const texts = createPool((text) => text)
  // Parsed anew: what a driver cuts out of a longer text would keep all of that alive.
  const lists = createPool((json) => JSON.parse(json).map(texts) as readonly string[])
  let round = 0

  return {
    /** How many are kept, those that are in doubt included. */
    get size(): number {
      return kept.size
    },
    /** The key, if it is kept and not in doubt; it becomes the one used last. */
    get(hash: string): RememberedKey | undefined {
      const entry = kept.get(hash)
      return entry !== undefined && entry.round === round ? entry : undefined
    },
    /** Whether it is kept, in doubt or not. */
    has: (hash: string): boolean => kept.has(hash),
    /** Keeps the key as it was read, and answers it as it is kept. */
    set(
      hash: string,
      { id, user, groups, subscription, status, expiresAt, revokedAt }: KnownKey,
      dueAt = Number.POSITIVE_INFINITY,
    ): KnownKey {
      const entry: Entry = {
        id,
        user: texts(user),
        groups: lists(JSON.stringify(groups)),
        subscription: texts(subscription),
        status: statuses[status],
        expiresAt,
        ...(revokedAt !== undefined && { revokedAt }),
        // A whole number is kept in the entry itself.
        dueAt: Math.trunc(dueAt),
        round,
      }
      kept.set(hash, entry)
      return entry
    },
    delete: (hash: string): void => void kept.delete(hash),
    /** Drops those for which this holds; looks at every one. */
    deleteWhere(holds: (key: KnownKey) => boolean): void {
      for (const [hash, entry] of [...kept.entries()]) if (holds(entry)) kept.delete(hash)
    },
    /** Puts all that is kept now in doubt: each has to be set again. */
    doubtAll(): void {
      round += 1
    },
  }
}

/** A function that makes a value of a text, and gives equal texts the same one while it can. */
function createPool<Value>(make: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, Value>()
  return (text) => {
    let value = known.get(text)
    if (value === undefined) {
      if (known.size >= mostShared) known.clear()
      value = make(text)
      known.set(text, value)
    }
    return value
  }
}
