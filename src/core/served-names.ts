/**
 * Names that model servers list, used as ids of ModelRefs without `modelIds`: a body may use every
 * name that the list of models shows. A name given by a resource takes precedence.
 */

import { addTo, areSame } from './lists.ts'
import type { Model, Snapshot } from './snapshot.ts'

/**
 * The most names accepted from one server, and from all together, since their lists are not
 * trusted.
 */
const mostOfOne = 1_000
const mostInAll = 100_000

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
    /** The names that a server lists, in order; empty if unknown. */
    of,
    /**
     * Replaces a server's names. Returns whether they have changed. Truncates beyond 100,000 in
     * total.
     */
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
    /** The snapshot with these names, now and after changes. `serverOf` identifies a server. */
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
