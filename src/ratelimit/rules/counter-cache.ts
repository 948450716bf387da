/** A cache of counters: mostly the same objects for the same limits and caller. */

import { getOrAdd } from '../../formats/lists.ts'
import type { Counter } from './counter.ts'
import { userInLines } from './counter-key.ts'
import type { CountedLimit } from './limit.ts'
import type { CachedWindows } from './windows.ts'

/**
 * Grouped by owner of the use, so that the few counters of an owner are together in memory. Building a key and finding
 * it by its text would be the largest cost of a Check.
 */
const known = new Map<string, Map<CountedLimit, Required<Counter>>>()
/** Beyond this many the cache is cleared, which also drops limits that are no longer in force. */
const maxKnown = 32_768
let size = 0

/**
 * The counter of one limit for a user, and for the group whose pool that user draws on. Mostly the same object for
 * equal arguments.
 */
export function counterOf(limit: CountedLimit, user: string, pool = ''): Required<Counter> {
  if (limit.counter !== undefined) return limit.counter
  const whom = limit.scope === 'group' ? pool : userInLines(user)
  const found = known.get(whom)?.get(limit)
  if (found !== undefined) return found
  const key = limit.keyPrefix + whom
  const owner = limit.scope === 'group' ? key : whom
  const counter = { key, owner, window: limit.parsedWindow, limit: limit.limit }
  bound()
  getOrAdd(known, whom, () => new Map()).set(limit, counter)
  return counter
}

/** Bounds the cache; call it before each insertion. */
function bound(): void {
  if (size++ % maxKnown !== 0) return
  known.clear()
  lists = new WeakMap()
}

type Limits = readonly CountedLimit[]
type Counters = readonly Required<Counter>[] & CachedWindows

/** For each list of limits the counters of each user, with the pool for which they were built. */
let lists = new WeakMap<Limits, Map<string, { readonly pool: string; readonly all: Counters }>>()

/**
 * The counters of these limits, as from `counterOf`, in the same order; mostly the same list for the same limits and
 * user.
 */
export function countersOf(limits: Limits, user: string, pool = ''): Counters {
  const found = lists.get(limits)?.get(user)
  if (found?.pool === pool) return found.all
  const counters = limits.map((limit) => counterOf(limit, user, pool))
  const all = Object.assign(counters, { last: null })
  bound()
  getOrAdd(lists, limits, () => new Map()).set(user, { pool, all })
  return all
}
