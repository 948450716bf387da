/**
 * Names that model servers list, used as ids of ModelRefs without `modelIds`. Which model a name means for a caller:
 * name-lookup.ts.
 */

import { appendTo, haveSameItems } from '../../formats/lists.ts'
import { memoizeLast } from '../../formats/memoize.ts'
import type { CompiledSubscription, Model, Snapshot } from './snapshot.ts'

/** Bounds for the list of one server, which is not trusted: number of names, and characters of all of them. */
const maxNames = 1_000
const maxCharacters = 65_536

/**
 * Whether the server's names apply to the model. They do not if a resource gives ids, or the one
 * name that the server uses for the model. A hosted provider's list also names other models.
 */
export function hasServedNames({ resource, cluster }: Model): boolean {
  return (
    cluster !== undefined &&
    resource.modelIds.length === 0 &&
    resource.server.upstreamModel === undefined &&
    resource.backend.kind !== 'ExternalModel'
  )
}

/** The accepted entries of a list, independent of its order: the first by name. */
export function acceptedNames<Entry extends { readonly id: string }>(
  served: readonly Entry[],
): readonly Entry[] {
  let left = maxCharacters
  const fits = ({ id }: Entry): boolean => {
    left -= id.length
    return left >= 0
  }
  return served
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .slice(0, maxNames)
    .filter(fits)
}

interface List {
  readonly names: readonly string[]
  readonly isLlamaCpp: boolean
}

/** One entry of a list. */
interface Entry {
  readonly id: string
  readonly isLlamaCpp?: boolean
}

/** The servers that list a name; `edition` counts their changes. */
interface Listing {
  readonly servers: Set<string>
  edition: number
}

/** The models of one Subscription that have the name, as of this edition of its listing. */
interface Found {
  readonly of: Listing
  readonly edition: number
  readonly models: readonly Model[]
}

/** The models of one Subscription to which the names of servers apply, in its order, and their places by server. */
interface Takers {
  readonly models: readonly Model[]
  readonly placesOf: ReadonlyMap<string, readonly number[]>
}

/** Maximum number of cached results; beyond it the cache is cleared. */
const maxFound = 10_000

/** `onChange` is called whenever something that decisions depend on has changed, in the same turn. */
export function createServedNames(onChange: () => void = () => {}) {
  const lists = new Map<string, List>()
  const listings = new Map<string, Listing>()

  /** Only touches names that were added or removed, so that cached results for others stay. */
  function replace(server: string, list: List | undefined): void {
    const before = new Set(lists.get(server)?.names)
    const names = new Set(list?.names)
    for (const name of before) {
      const listing = names.has(name) ? undefined : listings.get(name)
      if (listing === undefined) continue
      listing.servers.delete(server)
      listing.edition += 1
      if (listing.servers.size === 0) listings.delete(name)
    }
    for (const name of names) {
      if (before.has(name)) continue
      const listing = listings.get(name) ?? { servers: new Set(), edition: 0 }
      listing.servers.add(server)
      listing.edition += 1
      listings.set(name, listing)
    }
    if (list === undefined) lists.delete(server)
    else lists.set(server, list)
    onChange()
  }

  return {
    /** Replaces the list of a server. Returns whether it has changed. */
    set(server: string, served: readonly Entry[]): boolean {
      const before = lists.get(server)
      const names = acceptedNames(served).map(({ id }) => id)
      const isLlamaCpp = served.length > 0 && served.every((each) => each.isLlamaCpp)
      if (before?.isLlamaCpp === isLlamaCpp && haveSameItems(before.names, names)) return false
      replace(server, { names, isLlamaCpp })
      return true
    },
    /** Forgets a server that no model uses. */
    forget(server: string): void {
      if (lists.has(server)) replace(server, undefined)
    },
    /** The snapshot with these names, which it follows. `serverOf` identifies a server. */
    onto(snapshot: Snapshot, serverOf: (model: Model) => string): Snapshot {
      const models = Map.groupBy([...snapshot.models.values()].filter(hasServedNames), serverOf)
      const found = new Map<string, Found>()
      const takers = memoizeLast<CompiledSubscription, Takers>()

      function takersOf(subscription: CompiledSubscription): Takers {
        const all: Model[] = []
        const placesOf = new Map<string, number[]>()
        for (const key of new Set(subscription.modelKeys)) {
          const model = snapshot.models.get(key)
          if (model === undefined || !hasServedNames(model)) continue
          appendTo(placesOf, serverOf(model), all.push(model) - 1)
        }
        return { models: all, placesOf }
      }

      /** Goes through the servers that list the name or through those of the Subscription, whichever are fewer. */
      function find(of: Listing, subscription: CompiledSubscription): Found {
        const { models, placesOf } = takers(subscription, [], () => takersOf(subscription))
        const { servers, edition } = of
        const few = servers.size < placesOf.size ? servers : placesOf.keys()
        const places: number[] = []
        for (const server of few) {
          if (!servers.has(server)) continue
          for (const place of placesOf.get(server) ?? []) places.push(place)
        }
        places.sort((a, b) => a - b)
        return { of, edition, models: places.map((place) => models[place] as Model) }
      }

      return {
        ...snapshot,
        servedNames: {
          listing(name, subscription) {
            const of = listings.get(name)
            if (of === undefined) return []
            const key = `${subscription.name}\n${name}`
            const known = found.get(key)
            if (known?.of === of && known.edition === of.edition) return known.models
            if (found.size >= maxFound) found.clear()
            const fresh = find(of, subscription)
            found.set(key, fresh)
            return fresh.models
          },
          listingAnywhere(name, max) {
            const first: Model[] = []
            for (const server of listings.get(name)?.servers ?? []) {
              first.push(...(models.get(server) ?? []).slice(0, max - first.length))
              if (first.length >= max) break
            }
            return first
          },
          listOf: (model) => lists.get(serverOf(model))?.names,
          isLlamaCpp: (model) => lists.get(serverOf(model))?.isLlamaCpp === true,
        },
      }
    },
  }
}
