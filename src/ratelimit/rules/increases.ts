/** Increases: a limit by name is temporarily higher, for one of its counters. Counters do not change. */

import type { ExactInt } from '../../formats/exact.ts'
import { raiseLimit } from './counted-limits.ts'
import type { Counter } from './counter.ts'
import { countersOf } from './counter-cache.ts'
import type { CountedLimit } from './limit.ts'
import { toPolicyField } from './limit-headers.ts'

export interface Increase {
  /** The key of the counter whose limit is increased. */
  readonly counter: string
  readonly limit: ExactInt
  /** When it ends, in milliseconds since the epoch. */
  readonly until: number
}

/** By counter key, the highest first; of equally high ones, the one that ends last first. */
export type Increases = ReadonlyMap<string, readonly Increase[]>

/** Limits are compared by identity, so each has one copy per increase. */
const copies = new WeakMap<Increase, WeakMap<CountedLimit, CountedLimit>>()

/** The limit in force at an instant for this counter: the highest of the resource's and its increases. */
export function limitInForce(
  limit: CountedLimit,
  counter: string,
  increases: Increases,
  now: number,
): CountedLimit {
  const found = increases.get(counter)?.find(({ until }) => until > now)
  if (found === undefined || found.limit <= limit.limit) return limit
  const known = copies.get(found) ?? new WeakMap<CountedLimit, CountedLimit>()
  const copy = known.get(limit) ?? raiseLimit(limit, found.limit, found.until)
  copies.set(found, known.set(limit, copy))
  return copy
}

/** The limits that a request is compared with. */
export interface RequestLimits {
  readonly limits: readonly CountedLimit[]
  readonly caller: { readonly user: string }
  readonly pool?: string | undefined
  /** The key's own limits; `policies`: their items in `RateLimit-Policy`. */
  readonly keyLimits?: { readonly policies: string } | undefined
}

/** The grant with its limits in force at `now`; the same object if none is increased. */
export function withIncreases<Grant extends RequestLimits>(
  grant: Grant,
  increases: Increases,
  now: number,
): Grant {
  const { limits: written, caller, pool } = grant
  const counters = countersOf(written, caller.user, pool)
  const limits = written.map((limit, i) =>
    limit.limitName === undefined
      ? limit
      : limitInForce(limit, (counters[i] as Counter).key, increases, now),
  )
  if (limits.every((limit, i) => limit === written[i])) return grant
  const own = limits.filter(({ origin }) => origin === 'key')
  const { keyLimits } = grant
  if (keyLimits === undefined || own.length === 0) return { ...grant, limits }
  return { ...grant, limits, keyLimits: { ...keyLimits, policies: toPolicyField(own) } }
}
