/**
 * Claims names that model servers list for the namespaces of their models, and gives up those that
 * have been missing for an hour. Nothing is claimed while the database is unavailable.
 */

import { createMutex } from '../../runtime/mutex.ts'
import { inSlices } from '../../runtime/slices.ts'
import {
  afterSight,
  claimsOf,
  keptMs,
  type Missing,
  type NameOwner,
  type Sight,
  type Wish,
} from '../rules/name-owners.ts'
import { readPublishedName } from '../rules/published-names.ts'
import type { createServedNames } from '../rules/served-names.ts'
import type { Model, Snapshot } from '../rules/snapshot.ts'
import type { OwnerUpdate, ServedNamesStore } from './served-names.ts'

/** The models of a server whose names apply to them. */
export interface ServerModels {
  /** The earliest of all. */
  readonly first: Model
  /** The earliest of each namespace. */
  readonly byNamespace: ReadonlyMap<string, Model>
}

export interface NameClaimsDeps {
  readonly names: ReturnType<typeof createServedNames>
  readonly store: ServedNamesStore
  readonly servers: () => ReadonlyMap<string, ServerModels>
  /** The models with their own names, also those that are not in force yet. */
  readonly latest: () => Snapshot
  /** When a server has last answered this process, by `performance.now()`. */
  readonly answeredAt: (server: string) => number
  /** Milliseconds between two searches for names that are missing. */
  readonly tendMs: number
}

/** Names in one statement. */
const maxAtOnce = 5_000

export function createNameClaims(deps: NameClaimsDeps) {
  const { names, store, servers, latest } = deps
  /** Servers that may list names without an owner. */
  const due = new Set<string>()
  /** Names that their owner's server has listed since the last search, and then dropped. */
  let dropped = new Set<string>()
  /** Names that ModelRefs declared until recently: nobody else claims them within the hour. */
  const undeclared = new Map<string, { readonly at: number; readonly by: ReadonlySet<string> }>()
  let declared: Snapshot['modelsByName'] | undefined
  let tendedAt = performance.now()
  let isRead = false
  const withLock = createMutex()

  function noteDeclared(): void {
    const { modelsByName } = latest()
    if (modelsByName === declared) return
    for (const [name, models] of declared ?? []) {
      const by = new Set(models.map(namespaceOf))
      if (!modelsByName.has(name)) undeclared.set(name, { at: performance.now(), by })
    }
    for (const name of undeclared.keys()) if (modelsByName.has(name)) undeclared.delete(name)
    declared = modelsByName
    addAll()
  }

  function addAll(): void {
    for (const server of servers().keys()) due.add(server)
  }

  function mayClaim(name: string, namespace: string): boolean {
    if (names.owners.has(name) || declared?.has(name)) return false
    // It belongs to the namespace that it names.
    if (readPublishedName(name) !== undefined) return false
    const recent = undeclared.get(name)
    return (
      recent === undefined || recent.by.has(namespace) || performance.now() - recent.at >= keptMs
    )
  }

  function wishesOf(server: string): readonly Wish[] {
    const model = servers().get(server)?.first
    if (model === undefined) return []
    return names
      .of(server)
      .filter((name) => mayClaim(name, namespaceOf(model)))
      .map((name) => ({ name, server, model }))
  }

  async function claimDue(): Promise<void> {
    noteDeclared()
    if (!isRead) return
    const asked = [...due]
    due.clear()
    const wishes = asked.flatMap(wishesOf)
    if (wishes.length === 0) return
    try {
      for (const some of chunks([...claimsOf(wishes, names.owned)])) {
        names.own(await store.claim(new Map(some)))
      }
    } catch (error) {
      for (const server of asked) due.add(server)
      isRead = false
      throw error
    }
  }

  function sightOf(name: string, { namespace, server }: NameOwner, since: number) {
    const isOwn = (each: string): boolean =>
      servers().get(each)?.byNamespace.has(namespace) === true
    const isThere = isOwn(server)
    const seen = (sight: Sight, at = server) => ({ sight, at })
    if (isThere && names.lists(server, name)) return seen('listed')
    for (const other of names.serversOf(name)) if (isOwn(other)) return seen('listed', other)
    const isDeclared = declared?.get(name)?.some((model) => namespaceOf(model) === namespace)
    if (isDeclared || dropped.has(`${server} ${name}`)) return seen('listed')
    return seen(isThere && deps.answeredAt(server) <= since ? 'silent' : 'missing')
  }

  function* findUpdates(
    missing: ReadonlyMap<string, Missing>,
    now: number,
    since: number,
  ): Generator<void, readonly OwnerUpdate[]> {
    const updates: OwnerUpdate[] = []
    for (const [name, owner] of names.owners) {
      const { sight, at } = sightOf(name, owner, since)
      const before = missing.get(name)
      const after = afterSight(before, sight, now)
      if (after !== before || at !== owner.server) {
        updates.push({ name, owner, server: at, before, after })
      }
      yield
    }
    return updates
  }

  /** Observes every owned name, and gives up those that have been missing for too long. */
  async function tend(): Promise<void> {
    const since = tendedAt
    if (!isRead || performance.now() - since < deps.tendMs) return
    const begin = performance.now()
    const { now, missing } = await store.readMissing()
    const updates = await inSlices(findUpdates(missing, now, since))
    for (const some of chunks(updates)) await store.update(some)
    tendedAt = begin
    dropped = new Set()
    for (const [name, { at }] of undeclared) if (begin - at >= keptMs) undeclared.delete(name)
    addAll()
  }

  return {
    /** Whether the database answered the last time. */
    get isRead(): boolean {
      return isRead
    },
    /** Reads the owners that have changed. Rejects if the database is unavailable. */
    async read(): Promise<void> {
      const { owners, areAll } = await store.readOwners().catch((error: unknown) => {
        isRead = false
        throw error
      })
      for (const name of names.own(owners, areAll)) {
        for (const server of names.serversOf(name)) due.add(server)
      }
      isRead = true
    },
    /** Call it when the list of a server has changed, with its previous names. */
    noteList(server: string, before: readonly string[]): void {
      due.add(server)
      for (const name of before) {
        if (names.owners.get(name)?.server === server && !names.lists(server, name)) {
          dropped.add(`${server} ${name}`)
        }
      }
    },
    /** Claims what is listed and belongs to nobody. Rejects if the database is unavailable. */
    claim: () => withLock(claimDue),
    tend,
  }
}

function namespaceOf({ resource }: Model): string {
  return resource.metadata.namespace
}

function* chunks<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += maxAtOnce) yield items.slice(at, at + maxAtOnce)
}
