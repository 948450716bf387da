/**
 * Names that model servers list, used as ids of ModelRefs without `modelIds`, by the lists that their servers
 * gave this process. For whom a name means which model, name-lookup.ts says.
 */

import { addTo, areSame } from '../../formats/lists.ts'
import type { Model, Snapshot } from './snapshot.ts'

/** What is accepted of one server, since its list is not trusted: names, and characters of all of them. */
const maxNames = 1_000
const maxCharacters = 65_536

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

/** The accepted entries of a list, independent of its order: the first by name. */
export function takenOf<Entry extends { readonly id: string }>(
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

/** `onChange` is called whenever something that decisions depend on has changed, in the same turn. */
export function createServedNames(onChange: () => void = () => {}) {
  const lists = new Map<string, List>()
  const serversBy = new Map<string, Set<string>>()

  function remove(server: string): void {
    for (const name of lists.get(server)?.names ?? []) {
      const servers = serversBy.get(name)
      servers?.delete(server)
      if (servers?.size === 0) serversBy.delete(name)
    }
    lists.delete(server)
  }

  return {
    /** Replaces the list of a server. Returns whether it has changed. */
    set(server: string, served: readonly Entry[]): boolean {
      const before = lists.get(server)
      const names = takenOf(served).map(({ id }) => id)
      const isLlamaCpp = served.length > 0 && served.every((each) => each.isLlamaCpp)
      if (before?.isLlamaCpp === isLlamaCpp && areSame(before.names, names)) return false
      remove(server)
      lists.set(server, { names, isLlamaCpp })
      for (const name of names) {
        const servers = serversBy.get(name)
        if (servers === undefined) serversBy.set(name, new Set([server]))
        else servers.add(server)
      }
      onChange()
      return true
    },
    /** Forgets a server that no model uses any more. */
    forget(server: string): void {
      if (!lists.has(server)) return
      remove(server)
      onChange()
    },
    /** The snapshot with these names, now and after changes. `serverOf` identifies a server. */
    onto(snapshot: Snapshot, serverOf: (model: Model) => string): Snapshot {
      const models = new Map<string, Model[]>()
      for (const model of snapshot.models.values()) {
        if (takesServedNames(model)) addTo(models, serverOf(model), model)
      }
      return {
        ...snapshot,
        servedNames: {
          listing(name, atMost) {
            const servers = serversBy.get(name)
            if (servers === undefined) return []
            if (servers.size > atMost) return undefined
            const found: Model[] = []
            for (const server of servers) {
              const there = models.get(server) ?? []
              if (found.length + there.length > atMost) return undefined
              for (const model of there) found.push(model)
            }
            return found
          },
          lists: (model, name) =>
            takesServedNames(model) && serversBy.get(name)?.has(serverOf(model)) === true,
          listOf: (model) => lists.get(serverOf(model))?.names,
          isLlamaCpp: (model) => lists.get(serverOf(model))?.isLlamaCpp === true,
        },
      }
    },
  }
}
