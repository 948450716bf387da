/**
 * Names that model servers list, used as ids of ModelRefs without `modelIds`: a body may use every
 * name that the list of models shows. A name belongs to one namespace (name-owners.ts).
 */

import { addTo, areSame } from '../../formats/lists.ts'
import { fairShares } from './fair-shares.ts'
import { maxNames, type NameOwner } from './name-owners.ts'
import { byAge, type Model, type Opened, type ServedName, type Snapshot } from './snapshot.ts'

/** The most names accepted from one server, since its list is not trusted. */
const maxOfOne = 1_000

/**
 * Whether the server's names apply to the model. They do not if a resource gives ids, or the one
 * name that the server uses for the model. A hosted provider's list also names other models.
 */
export function takesServedNames({ resource, cluster }: Model): boolean {
  return (
    cluster !== undefined &&
    resource.modelIds.length === 0 &&
    resource.server.upstreamModel === undefined &&
    resource.backend.kind !== 'ExternalModel'
  )
}

/** The accepted entries of a list, independent of its order: at most 1,000, the first by name. */
export function takenOf<Entry extends { readonly id: string }>(
  served: readonly Entry[],
): readonly Entry[] {
  return served.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, maxOfOne)
}

/** What a server lists. */
interface List {
  readonly names: readonly string[]
  /** The length of its list before it was shortened. */
  readonly demand: number
  /** The namespaces of its models, each of which is charged with it. */
  readonly namespaces: readonly string[]
}

export interface ServedNamesOptions {
  /** The most names in all, which the namespaces share fairly. */
  readonly room?: number
  /** Called whenever something that decisions depend on has changed, in the same turn. */
  readonly onChange?: (() => void) | undefined
}

export function createServedNames({
  room = maxNames,
  onChange = () => {},
}: ServedNamesOptions = {}) {
  const lists = new Map<string, List>()
  const llamaCpps = new Set<string>()
  const serversBy = new Map<string, Set<string>>()
  const owners = new Map<string, NameOwner>()
  const owned = new Map<string, number>()
  let isKnown = false
  /** Names by namespace: listed, and accepted. */
  const demand = new Map<string, number>()
  const accepted = new Map<string, number>()
  let totalDemand = 0
  let edition = 0

  function noteChange(): void {
    edition += 1
    onChange()
  }

  function charge(counts: Map<string, number>, namespaces: readonly string[], by: number): void {
    for (const namespace of namespaces) {
      const count = (counts.get(namespace) ?? 0) + by
      if (count === 0) counts.delete(namespace)
      else counts.set(namespace, count)
    }
  }

  function addDemand(namespaces: readonly string[], by: number): void {
    charge(demand, namespaces, by)
    totalDemand += namespaces.length * by
  }

  function remove(server: string, names: readonly string[]): void {
    for (const name of names) {
      const servers = serversBy.get(name)
      servers?.delete(server)
      if (servers?.size === 0) serversBy.delete(name)
    }
  }

  function add(server: string, names: readonly string[]): void {
    for (const name of names) {
      const servers = serversBy.get(name)
      if (servers === undefined) serversBy.set(name, new Set([server]))
      else servers.add(server)
    }
  }

  /** How many names a server of these namespaces may add. Shortens lists of namespaces above their share. */
  function roomFor(namespaces: readonly string[]): number {
    if (totalDemand <= room) return room
    const shares = fairShares(demand, room)
    const freeOf = (namespace: string): number =>
      (shares.get(namespace) ?? 0) - (accepted.get(namespace) ?? 0)
    const above = new Set([...accepted.keys()].filter((namespace) => freeOf(namespace) < 0))
    for (const [server, { names, namespaces, demand }] of above.size > 0 ? lists : []) {
      // A server of several namespaces keeps what one of them has room for.
      const excess = Math.min(...namespaces.map((each) => -freeOf(each)))
      if (excess <= 0 || names.length === 0) continue
      const kept = names.slice(0, Math.max(0, names.length - excess))
      remove(server, names.slice(kept.length))
      charge(accepted, namespaces, kept.length - names.length)
      lists.set(server, { names: kept, demand, namespaces })
    }
    return Math.max(0, ...namespaces.map(freeOf))
  }

  const of = (server: string): readonly string[] => lists.get(server)?.names ?? []
  return {
    /** The names that a server lists, in order; empty if unknown. */
    of,
    /** Whether a server has answered, or another process knows its list. */
    knows: (server: string): boolean => lists.has(server),
    /** Whether a server lists the name. */
    lists: (server: string, name: string): boolean => serversBy.get(name)?.has(server) === true,
    /** The servers that list the name. */
    serversOf: (name: string): Iterable<string> => serversBy.get(name) ?? [],
    /** Changes with every change of lists and owners. */
    get edition(): number {
      return edition
    },
    /**
     * Replaces the names of a server, for models of these namespaces. Returns whether they have
     * changed. Shortens lists so that all have no more than `room`.
     */
    set(server: string, names: readonly string[], namespaces: readonly string[]): boolean {
      const before = lists.get(server)
      const isSame = before !== undefined && areSame(before.names, names)
      if (isSame && areSame(before.namespaces, namespaces)) return false
      noteChange()
      if (before !== undefined) {
        remove(server, before.names)
        charge(accepted, before.namespaces, -before.names.length)
        addDemand(before.namespaces, -before.demand)
        lists.delete(server)
      }
      addDemand(namespaces, names.length)
      const taken = names.slice(0, roomFor(namespaces))
      add(server, taken)
      charge(accepted, namespaces, taken.length)
      lists.set(server, { names: taken, demand: names.length, namespaces })
      return before === undefined || !areSame(before.names, taken)
    },
    /** Records what a server says it is, if it has answered this process. */
    recognise(server: string, served: readonly { readonly isLlamaCpp?: boolean }[]): void {
      const isLlamaCpp = served.length > 0 && served.every((each) => each.isLlamaCpp)
      if (isLlamaCpp !== llamaCpps.has(server)) onChange()
      if (isLlamaCpp) llamaCpps.add(server)
      else llamaCpps.delete(server)
    },
    /** Forgets a server that no model uses any more. */
    forget(server: string): void {
      llamaCpps.delete(server)
      const before = lists.get(server)
      if (before === undefined) return
      noteChange()
      remove(server, before.names)
      charge(accepted, before.namespaces, -before.names.length)
      addDemand(before.namespaces, -before.demand)
      lists.delete(server)
    },
    /** The owner of each name that has one. */
    owners: owners as ReadonlyMap<string, NameOwner>,
    /** How many names each namespace owns. */
    owned: owned as ReadonlyMap<string, number>,
    /**
     * Takes over owners; undefined: the name was given up. `areAll`: other names have no owner.
     * Returns the names that have none any more.
     */
    own(changes: ReadonlyMap<string, NameOwner | undefined>, areAll = false): readonly string[] {
      const free: string[] = []
      const editionBefore = edition
      if (areAll && !isKnown) edition += 1
      isKnown ||= areAll
      const gone = areAll ? [...owners.keys()].filter((name) => !changes.has(name)) : []
      for (const [name, owner] of [...gone.map((name) => [name, undefined] as const), ...changes]) {
        const before = owners.get(name)
        if (before?.namespace === owner?.namespace && before?.server === owner?.server) continue
        edition += 1
        if (before !== undefined) charge(owned, [before.namespace], -1)
        if (owner === undefined) {
          owners.delete(name)
          free.push(name)
        } else {
          owners.set(name, owner)
          charge(owned, [owner.namespace], 1)
        }
      }
      if (edition !== editionBefore) onChange()
      return free
    },
    /** The snapshot with these names, now and after changes. `serverOf` identifies a server. */
    onto(snapshot: Snapshot, serverOf: (model: Model) => string): Snapshot {
      const models = new Map<string, Model[]>()
      for (const model of snapshot.models.values()) {
        if (takesServedNames(model)) addTo(models, serverOf(model), model)
      }
      let gone: ReadonlyMap<string, readonly Opened[]> | undefined
      const found = new Map<string, ServedName>()
      let foundAt = edition

      function find(name: string, { namespace, server }: NameOwner): ServedName {
        const listing = [...(serversBy.get(name) ?? [])]
          .flatMap((each) => models.get(each) ?? [])
          .sort(byAge)
        const isOwn = ({ resource }: Model): boolean => resource.metadata.namespace === namespace
        const there = (models.get(server) ?? []).filter(isOwn)
        gone ??= goneModels(snapshot)
        return {
          namespace,
          owned: listing.filter(isOwn),
          held: there.length > 0 ? there : (gone.get(namespace) ?? []),
          others: listing.filter((model) => !isOwn(model)),
        }
      }

      return {
        ...snapshot,
        servedNames: {
          get isKnown() {
            return isKnown
          },
          get(name) {
            const owner = owners.get(name)
            if (owner === undefined) return undefined
            if (foundAt !== edition) found.clear()
            foundAt = edition
            const known = found.get(name) ?? find(name, owner)
            found.set(name, known)
            return known
          },
          ownerOf: (name) => owners.get(name)?.namespace,
          listOf: (model) => lists.get(serverOf(model))?.names,
          isLlamaCpp: (model) => llamaCpps.size > 0 && llamaCpps.has(serverOf(model)),
        },
      }
    },
  }
}

/** By namespace: models that AccessPolicies name and that do not exist, and who may use them. */
function goneModels({ policies }: Snapshot): ReadonlyMap<string, readonly Opened[]> {
  const gone = new Map<string, Opened[]>()
  for (const { missing, resource } of policies.values()) {
    const { users, groups } = resource.subjects
    for (const key of missing) {
      const namespace = key.slice(0, key.indexOf('/'))
      addTo(gone, namespace, { key, users: new Set(users), groups: new Set(groups) })
    }
  }
  return gone
}
