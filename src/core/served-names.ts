/**
 * Names that model servers list, taken in as ids of the ModelRefs that say none themselves: what the
 * list of models shows, a body may name. A name that a resource gives goes before all of these.
 */

import { addTo, areSame } from './lists.ts'
import type { Model, Snapshot } from './snapshot.ts'

/** Names that are taken in of one server, and of all together: lists are written by others. */
const mostOfOne = 1_000
const mostInAll = 100_000

/**
 * Whether the server's names are the model's. A resource that gives ids, or the one name by which
 * the server knows the model, has said it all; a hosted provider's list is about other models too.
 */
export function takesServedNames({ resource, cluster }: Model): boolean {
  return (
    cluster !== undefined &&
    resource.modelIds.length === 0 &&
    resource.server.upstreamModel === undefined &&
    resource.backend.kind !== 'ExternalModel'
  )
}

/** What is taken in of a list, whatever its order: at most 1,000 entries, the first by name. */
export function takenOf<Entry extends { readonly id: string }>(
  served: readonly Entry[],
): readonly Entry[] {
  return served.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, mostOfOne)
}

export function createServedNames() {
  const listed = new Map<string, readonly string[]>()
  const serversBy = new Map<string, Set<string>>()
  let inAll = 0

  function drop(server: string, names: readonly string[]): void {
    for (const name of names) {
      const servers = serversBy.get(name)
      servers?.delete(server)
      if (servers?.size === 0) serversBy.delete(name)
    }
    inAll -= names.length
  }

  const of = (server: string): readonly string[] => listed.get(server) ?? []
  return {
    /** What a server lists, in order; empty while that is not known. */
    of,
    /** Replaces what a server lists. Answers whether that is new. Beyond 100,000 in all it is cut. */
    set(server: string, names: readonly string[]): boolean {
      const before = of(server)
      if (areSame(before, names)) return false
      drop(server, before)
      const taken = names.slice(0, Math.max(0, mostInAll - inAll))
      for (const name of taken) {
        const servers = serversBy.get(name)
        if (servers === undefined) serversBy.set(name, new Set([server]))
        else servers.add(server)
      }
      inAll += taken.length
      listed.set(server, taken)
      return true
    },
    /** The snapshot with these names, now and as they change. `serverOf`: what identifies a server. */
    onto(snapshot: Snapshot, serverOf: (model: Model) => string): Snapshot {
      const models = new Map<string, Model[]>()
      for (const model of snapshot.models.values()) {
        if (takesServedNames(model)) addTo(models, serverOf(model), model)
      }
      const get = (name: string): readonly Model[] =>
        [...(serversBy.get(name) ?? [])].flatMap((server) => models.get(server) ?? [])
      return { ...snapshot, modelsByServedName: { get } }
    },
  }
}
