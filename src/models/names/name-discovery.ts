/**
 * Discovers the names that model servers list: by asking them, from lists for callers, and from the
 * other processes through the database. Known names stay valid while a server does not respond.
 */

import type { Logger } from 'pino'
import { nameProblems } from '../../cluster/rules/name-conflicts.ts'
import { serverOf } from '../../gateway/server-list.ts'
import type { ModelRef } from '../../kinds/resources.ts'
import { forEachConcurrently } from '../../runtime/concurrency.ts'
import { linesShown } from '../../runtime/line-limit.ts'
import { repeat } from '../../runtime/loop.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { ServedModel } from '../rules/model-list.ts'
import { createServedNames, takenOf, takesServedNames } from '../rules/served-names.ts'
import { byAge, type Model, type Snapshot } from '../rules/snapshot.ts'
import { createNameClaims, type ServerModels } from './name-claims.ts'
import type { ServedNamesStore } from './served-names.ts'

export type NameDiscovery = ReturnType<typeof createNameDiscovery>

export interface NameDiscoveryDeps {
  readonly snapshot: () => Snapshot
  /** The snapshot with models that are not in force yet; by default `snapshot`. */
  readonly latest?: () => Snapshot
  readonly store: ServedNamesStore
  /**
   * Requests the server's list; rejects if there is none. undefined: another process
   * asks, and claims names.
   */
  readonly ask: ((ref: ModelRef) => Promise<readonly ServedModel[]>) | undefined
  readonly log: Pick<Logger, 'debug' | 'warn'>
  readonly onFault: (error: unknown) => void
  /** Called in the turn in which names begin or cease to lead to models. */
  readonly onNames?: () => void
  /** Called, instead of looking for problems, when names or models have changed. */
  readonly onChange?: () => Promise<void>
  /** Milliseconds between two reads of the others' names and checks for servers that are due. */
  readonly restMs?: number
  /** Milliseconds until a server that has responded is asked again. */
  readonly freshMs?: number
  /** Milliseconds between two searches for names that their owners have lost. */
  readonly tendMs?: number
}

/** Milliseconds until a server that has not responded is asked again, for each attempt. */
const retryMs = [1_000, 2_000, 5_000, 15_000, 30_000] as const
/** Servers asked concurrently, and how long one may block those behind it. */
const concurrency = 50
const maxBlockMs = 500
/** Rounds between two searches for names that belong to others. */
const judgeRests = 5
/** How often each process confirms a server's unchanged list. */
const confirmMs = 86_400_000

/**
 * When a server is asked again, was last reported and has last answered, by `performance.now()`.
 */
interface Turn {
  dueAt: number
  failures: number
  reportedAt: number
  answeredAt: number
}

export function createNameDiscovery(deps: NameDiscoveryDeps) {
  const { store, log, onFault, restMs = 1_000, freshMs = 30_000, tendMs = 300_000 } = deps
  const latest = deps.latest ?? deps.snapshot
  const names = createServedNames({ onChange: deps.onNames })
  const turns = new Map<string, Turn>()
  const closing = new AbortController()
  const { signal } = closing
  const identities = new WeakMap<ModelRef, string>()
  let shown: { readonly from: Snapshot; readonly snapshot: Snapshot } | undefined
  let needed: ReadonlyMap<string, ServerModels> = new Map()
  let neededFor: Snapshot['models'] | undefined
  let problems: readonly string[] = []
  let judged: { readonly snapshot: Snapshot; readonly edition: number; at: number } | undefined
  const answeredAt = (id: string): number => turns.get(id)?.answeredAt ?? -Infinity
  const claims = createNameClaims({ names, store, servers, latest, answeredAt, tendMs })

  function idOf({ resource }: Model): string {
    const id = identities.get(resource) ?? serverOf(resource)
    identities.set(resource, id)
    return id
  }

  function turnOf(id: string): Turn {
    const turn = turns.get(id) ?? {
      ...{ dueAt: -Infinity, failures: 0, reportedAt: -Infinity, answeredAt: -Infinity },
    }
    turns.set(id, turn)
    return turn
  }

  /** The current servers with their models. Others are forgotten. */
  function servers(): ReadonlyMap<string, ServerModels> {
    const { models } = latest()
    if (models === neededFor) return needed
    const found = new Map<string, { first: Model; byNamespace: Map<string, Model> }>()
    for (const model of models.values()) {
      if (!takesServedNames(model)) continue
      const { namespace } = model.resource.metadata
      const id = idOf(model)
      const server = found.get(id) ?? { first: model, byNamespace: new Map() }
      found.set(id, server)
      if (byAge(model, server.first) < 0) server.first = model
      const other = server.byNamespace.get(namespace)
      if (other === undefined || byAge(model, other) < 0) server.byNamespace.set(namespace, model)
    }
    const before = needed
    needed = found
    neededFor = models
    for (const id of before.keys()) {
      if (!found.has(id)) {
        names.forget(id)
        turns.delete(id)
      } else if (names.knows(id)) take(id, names.of(id))
    }
    return needed
  }

  /** Takes over the list of a server. Returns whether it has changed. */
  function take(id: string, listed: readonly string[]): boolean {
    const namespaces = [...(servers().get(id)?.byNamespace.keys() ?? [])].sort()
    if (namespaces.length === 0) return false
    const before = names.of(id)
    const isNew = names.set(id, listed, namespaces)
    if (isNew) claims.noteList(id, before)
    return isNew
  }

  /** Reports new names to the others, and from time to time unchanged ones. */
  async function learn(model: Model, served: readonly ServedModel[]): Promise<void> {
    const id = idOf(model)
    if (!servers().has(id)) return
    const turn = turnOf(id)
    turn.answeredAt = performance.now()
    names.recognise(id, served)
    const isNew = take(
      id,
      takenOf(served).map((each) => each.id),
    )
    if (isNew) log.debug({ model: model.key }, 'a model server lists other names')
    if (isNew || performance.now() - turn.reportedAt >= confirmMs) void report(id, turn)
    if (isNew && deps.ask !== undefined && claims.isRead) await claims.claim().catch(noteOutage)
  }

  async function report(id: string, turn: Turn): Promise<void> {
    turn.reportedAt = performance.now()
    await store.write(id, names.of(id)).catch((error: unknown) => {
      // So that its next response is reported again.
      turn.reportedAt = -Infinity
      log.debug({ cause: String(error) }, 'the names of a model server could not be kept')
    })
  }

  function noteOutage(error: unknown): void {
    log.debug({ cause: String(error) }, 'what other processes know of model servers is not known')
  }

  async function ask({ first }: ServerModels, turn: Turn): Promise<void> {
    try {
      await learn(first, (await deps.ask?.(first.resource)) ?? [])
      turn.failures = 0
      turn.dueAt = performance.now() + freshMs
    } catch (error) {
      turn.dueAt = performance.now() + (retryMs[turn.failures] ?? freshMs)
      turn.failures += 1
      log.debug({ model: first.key, cause: String(error) }, 'a model server shows no list')
    }
  }

  /** Servers with the fewest failures come first. */
  async function askAll(): Promise<void> {
    const due = new Map<Turn, ServerModels>()
    for (const [id, models] of servers()) {
      const turn = turnOf(id)
      if (turn.dueAt <= performance.now()) due.set(turn, models)
    }
    const inOrder = [...due].sort(([a], [b]) => a.failures - b.failures)
    // A signal per round: listeners on one that lives as long as the process would never be
    // released.
    const options = { concurrency, maxBlockMs, signal: new AbortController().signal }
    await forEachConcurrently(inOrder, options, ([turn, models]) => ask(models, turn))
  }

  async function follow(): Promise<void> {
    // Once in any case: names that are declared may belong to others.
    if (servers().size > 0 || names.owners.size > 0 || !claims.isRead) {
      try {
        for (const [id, listed] of await store.readChanges(servers())) take(id, listed)
        await claims.read()
        if (deps.ask !== undefined) {
          await claims.claim()
          await claims.tend()
        }
      } catch (error) {
        noteOutage(error)
      }
    }
    await judge()
  }

  /** Finds names that belong to others, and logs new ones. */
  async function judge(): Promise<void> {
    const snapshot = current()
    const { edition } = names
    const at = performance.now()
    if (judged?.snapshot === snapshot && judged.edition === edition) return
    if (judged !== undefined && at - judged.at < judgeRests * restMs) return
    judged = { snapshot, edition, at }
    if (deps.onChange !== undefined) return deps.onChange()
    if (deps.ask === undefined) return
    const known = new Set(problems)
    problems = await inSlices(nameProblems(snapshot))
    const added = problems.filter((problem) => !known.has(problem))
    for (const problem of added.slice(0, linesShown))
      log.warn({ code: 'resource_problem', problem }, 'resource problem')
  }

  for (const step of deps.ask ? [follow, askAll] : [follow]) {
    void repeat({ step, restMs, onFault, signal })
  }

  function current(): Snapshot {
    const from = deps.snapshot()
    if (shown?.from !== from) shown = { from, snapshot: names.onto(from, idOf) }
    return shown.snapshot
  }

  return {
    /** The snapshot in force, with the names that servers list. */
    snapshot: current,
    /** Models some of whose names belong to others, one sentence each. */
    problems: () => problems,
    /**
     * Records the list of a model's server. Resolves once the names can be used, if they may be, or the
     * database does not answer.
     */
    async note(model: Model, served: readonly ServedModel[]) {
      if (takesServedNames(model)) await learn(model, served)
    },
    close: () => closing.abort(),
  }
}
