/**
 * To which namespace a name belongs that model servers list: the rules by which it is claimed, kept
 * and given up. Postgres has the owners (models/names/served-names.ts), so that all processes agree.
 */

import { fairShares } from './fair-shares.ts'
import { byAge, type Model } from './snapshot.ts'

/** The namespace that a name belongs to, and the server that has answered with it. */
export interface NameOwner {
  readonly namespace: string
  readonly server: string
}

/** The most names of all namespaces together. */
export const maxNames = 100_000

/** A name is kept for this long after its server has begun to answer without it; milliseconds. */
export const keptMs = 3_600_000
/**
 * The most time that counts between two observations. A clock that jumps, or a server that is
 * silent in between, does not make a name lost.
 */
export const maxStepMs = 600_000

/**
 * What is observed of an owner: its server lists the name; answers without it, or no ModelRef of the
 * namespace uses it any more; or neither, because the server is silent.
 */
export type Sight = 'listed' | 'missing' | 'silent'

/** How long a name has been missing, as of the last observation; both in milliseconds. */
export interface Missing {
  readonly ms: number
  readonly at: number
}

/**
 * How long the name has been missing after another observation at `now`; undefined if it is not.
 * The name is given up once `ms` has reached `keptMs`.
 */
export function afterSight(
  before: Missing | undefined,
  sight: Sight,
  now: number,
): Missing | undefined {
  if (sight === 'silent') return before
  if (sight === 'listed') return undefined
  if (before === undefined) return { ms: 0, at: now }
  const step = Math.min(Math.max(0, now - before.at), maxStepMs)
  return { ms: before.ms + step, at: now }
}

/** A name that a namespace's server lists, and its earliest ModelRef at that server. */
export interface Wish {
  readonly name: string
  readonly server: string
  readonly model: Model
}

/**
 * The claims to make: of several wishes for a name that of the earliest ModelRef. Each namespace
 * gets at most its fair share, names that it already has included. `held` counts those by namespace.
 */
export function claimsOf(
  wishes: readonly Wish[],
  held: ReadonlyMap<string, number>,
  room = maxNames,
): ReadonlyMap<string, NameOwner> {
  const first = new Map<string, Wish>()
  for (const wish of wishes) {
    const other = first.get(wish.name)
    if (other === undefined || byAge(wish.model, other.model) < 0) first.set(wish.name, wish)
  }
  const demand = new Map(held)
  for (const { model } of first.values()) {
    const { namespace } = model.resource.metadata
    demand.set(namespace, (demand.get(namespace) ?? 0) + 1)
  }
  const shares = fairShares(demand, room)
  const have = new Map(held)
  const claims = new Map<string, NameOwner>()
  for (const [name, { server, model }] of first) {
    const { namespace } = model.resource.metadata
    const count = have.get(namespace) ?? 0
    if (count >= (shares.get(namespace) ?? 0)) continue
    have.set(namespace, count + 1)
    claims.set(name, { namespace, server })
  }
  return claims
}
