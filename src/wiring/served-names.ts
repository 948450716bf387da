/**
 * Learns the names that model servers list: by asking them, from lists for callers, and from the
 * other processes through the database. Known names stay valid while a server does not respond.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { forEachConcurrently } from '../admin/concurrency.ts'
import { readServedModels, type ServedModel } from '../core/model-list.ts'
import type { ModelRef } from '../core/resources.ts'
import { createServedNames, takenOf, takesServedNames } from '../core/served-names.ts'
import type { Model, Snapshot } from '../core/snapshot.ts'
import { askServer, serverOf } from '../gateway/server-list.ts'
import { createServedNamesStore, type ServedNamesStore } from '../store/served-names.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Resources } from './resources.ts'

export interface Learner {
  /** The snapshot in force, with the names that servers list. */
  readonly snapshot: () => Snapshot
  /** Records the list of a model's server. */
  note(model: Model, served: readonly ServedModel[]): void
  close(): void
}

export interface LearnerDeps {
  readonly snapshot: () => Snapshot
  readonly store: ServedNamesStore
  /**
   * Requests the server's list, unparsed; rejects if there is none. undefined: another process
   * asks.
   */
  readonly ask: ((ref: ModelRef) => Promise<unknown>) | undefined
  readonly log: Pick<Logger, 'debug'>
  readonly onFault: (error: unknown) => void
  /** Milliseconds between two reads of the others' names and checks for servers that are due. */
  readonly restMs?: number
  /** Milliseconds until a server that has responded is asked again. */
  readonly freshMs?: number
}

/** Milliseconds until a server that has not responded is asked again, for each attempt. */
const retryMs = [1_000, 2_000, 5_000, 15_000, 30_000] as const
const askMs = 2_000
/** Servers asked concurrently, and how long one may block those behind it. */
const concurrency = 50
const patienceMs = 500
/** How often each process confirms a server's unchanged list. */
const confirmMs = 86_400_000

/** When a server is asked again and was last reported, by `performance.now()`. */
interface Turn {
  dueAt: number
  failures: number
  reportedAt: number
}

/** Asks the servers of models without ids of their own. */
export function openServedNames(
  { config, log, onFault, stops }: Context,
  { pool }: Database,
  { snapshot, readSecret }: Pick<Resources, 'snapshot' | 'readSecret'>,
): Learner {
  const { backendCaFile: caFile } = config
  const learner = createLearner({
    snapshot,
    store: createServedNamesStore(pool),
    ask: (ref) => askServer(ref, { readSecret, caFile, signal: AbortSignal.timeout(askMs) }),
    log,
    onFault,
  })
  stops.push(() => learner.close())
  return learner
}

export function createLearner(deps: LearnerDeps): Learner {
  const { store, log, onFault, restMs = 1_000, freshMs = 30_000 } = deps
  const names = createServedNames()
  const turns = new Map<string, Turn>()
  const closing = new AbortController()
  const { signal } = closing
  const identities = new WeakMap<ModelRef, string>()
  let shown: { readonly from: Snapshot; readonly snapshot: Snapshot } | undefined
  let needed: ReadonlyMap<string, Model> = new Map()
  let neededFor: Snapshot['models'] | undefined

  function idOf({ resource }: Model): string {
    const id = identities.get(resource) ?? serverOf(resource)
    identities.set(resource, id)
    return id
  }

  function turnOf(id: string): Turn {
    const turn = turns.get(id) ?? { dueAt: -Infinity, failures: 0, reportedAt: -Infinity }
    turns.set(id, turn)
    return turn
  }

  /** The current servers, each with one of its models. Others are forgotten. */
  function servers(): ReadonlyMap<string, Model> {
    const { models } = deps.snapshot()
    if (models === neededFor) return needed
    const found = [...models.values()].filter(takesServedNames)
    const before = needed
    needed = new Map(found.map((model) => [idOf(model), model]))
    neededFor = models
    for (const id of before.keys()) {
      if (needed.has(id)) continue
      names.set(id, [])
      turns.delete(id)
    }
    return needed
  }

  /** Reports new names to the others, and from time to time unchanged ones. */
  async function learn(model: Model, served: readonly ServedModel[]): Promise<void> {
    const id = idOf(model)
    if (!servers().has(id)) return
    const turn = turnOf(id)
    const isNew = names.set(
      id,
      takenOf(served).map((each) => each.id),
    )
    if (isNew) log.debug({ model: model.key }, 'a model server lists other names')
    if (!isNew && performance.now() - turn.reportedAt < confirmMs) return
    turn.reportedAt = performance.now()
    await store.write(id, names.of(id)).catch((error: unknown) => {
      // So that its next response is reported again.
      turn.reportedAt = -Infinity
      log.debug({ cause: String(error) }, 'the names of a model server could not be kept')
    })
  }

  async function ask(model: Model, turn: Turn): Promise<void> {
    try {
      const list = await deps.ask?.(model.resource)
      await learn(model, readServedModels(list))
      turn.failures = 0
      turn.dueAt = performance.now() + freshMs
    } catch (error) {
      turn.dueAt = performance.now() + (retryMs[turn.failures] ?? freshMs)
      turn.failures += 1
      log.debug({ model: model.key, cause: String(error) }, 'a model server shows no list')
    }
  }

  /** Servers with the fewest failures come first. */
  async function askAll(): Promise<void> {
    const due = new Map<Turn, Model>()
    for (const [id, model] of servers()) {
      const turn = turnOf(id)
      if (turn.dueAt <= performance.now()) due.set(turn, model)
    }
    const inOrder = [...due].sort(([a], [b]) => a.failures - b.failures)
    // A signal per round: listeners on one that lives as long as the process would never be
    // released.
    const options = { concurrency, patienceMs, signal: new AbortController().signal }
    await forEachConcurrently(inOrder, options, ([turn, model]) => ask(model, turn))
  }

  async function readOthers(): Promise<void> {
    if (servers().size === 0) return
    try {
      for (const [id, listed] of await store.readChanges(servers())) {
        if (servers().has(id)) names.set(id, listed)
      }
    } catch (error) {
      log.debug({ cause: String(error) }, 'what other processes know of model servers is not known')
    }
  }

  async function keepOn(step: () => Promise<void>): Promise<void> {
    for (;;) {
      await step().catch(onFault)
      await delay(restMs, undefined, { signal, ref: false })
    }
  }
  for (const step of deps.ask ? [readOthers, askAll] : [readOthers]) keepOn(step).catch(() => {})

  return {
    snapshot() {
      const from = deps.snapshot()
      if (shown?.from !== from) shown = { from, snapshot: names.onto(from, idOf) }
      return shown.snapshot
    },
    note(model, served) {
      if (takesServedNames(model)) void learn(model, served)
    },
    close: () => closing.abort(),
  }
}
