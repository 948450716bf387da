/**
 * Discovers the names that model servers list: by asking them, and from lists for callers. Known names stay
 * valid while a server does not respond.
 */

import type { Logger } from 'pino'
import { memoizeLast } from '../../formats/memoize.ts'
import { modelServerId } from '../../gateway/server-list.ts'
import type { ModelRef } from '../../kinds/resources.ts'
import { forEachConcurrently } from '../../runtime/concurrency.ts'
import { repeat } from '../../runtime/loop.ts'
import { withTimeout } from '../../runtime/with-timeout.ts'
import type { ServedModel } from '../rules/model-list.ts'
import { createServedNames, hasServedNames } from '../rules/served-names.ts'
import type { Model, Snapshot } from '../rules/snapshot.ts'

export type NameDiscovery = ReturnType<typeof createNameDiscovery>

interface NameDiscoveryDeps {
  readonly snapshot: () => Snapshot
  /** The snapshot with models that are not in force yet; by default `snapshot`. */
  readonly latest?: () => Snapshot
  /** Requests the server's list; rejects if there is none. */
  readonly ask: (ref: ModelRef) => Promise<readonly ServedModel[]>
  readonly log: Pick<Logger, 'debug'>
  readonly onFault: (error: unknown) => void
  /** Called in the turn in which names begin or cease to mean models. */
  readonly onNames?: () => void
  /** Milliseconds between two checks for servers that are due. */
  readonly restMs?: number
  /** Milliseconds until a server that has responded is asked again. */
  readonly freshMs?: number
}

/** Milliseconds until a server that has not responded is asked again, for each attempt. */
const retryMs = [1_000, 2_000, 5_000, 15_000, 30_000] as const
/** Servers asked concurrently, and how long one may block those behind it. */
const concurrency = 50
const maxBlockMs = 500
/** How long a start waits for the lists. */
const firstListsMs = 2_000

/** When a server is asked again, by `performance.now()`, and one of the models there. */
interface Turn {
  model: Model
  dueAt: number
  failures: number
}

export function createNameDiscovery(deps: NameDiscoveryDeps) {
  const { log, onFault, restMs = 1_000, freshMs = 30_000 } = deps
  const latest = deps.latest ?? deps.snapshot
  const names = createServedNames(deps.onNames)
  const turns = new Map<string, Turn>()
  const closing = new AbortController()
  const allAsked = Promise.withResolvers<void>()
  const identities = memoizeLast<ModelRef, string>()
  let shown: { readonly from: Snapshot; readonly snapshot: Snapshot } | undefined
  let turnsFor: Snapshot['models'] | undefined

  const idOf = ({ resource }: Model): string =>
    identities(resource, [], () => modelServerId(resource))

  /** The current servers; others are forgotten. */
  function servers(): ReadonlyMap<string, Turn> {
    const { models } = latest()
    if (models === turnsFor) return turns
    turnsFor = models
    const found = new Map<string, Model>()
    for (const model of models.values()) if (hasServedNames(model)) found.set(idOf(model), model)
    for (const [id, model] of found) {
      const turn = turns.get(id)
      if (turn === undefined) turns.set(id, { model, dueAt: -Infinity, failures: 0 })
      else turn.model = model
    }
    for (const id of turns.keys()) {
      if (found.has(id)) continue
      turns.delete(id)
      names.forget(id)
    }
    return turns
  }

  function learn(model: Model, served: readonly ServedModel[]): void {
    const id = idOf(model)
    if (!servers().has(id)) return
    if (names.set(id, served))
      log.debug({ model: model.key }, 'the model names of a server have changed')
  }

  async function ask(turn: Turn): Promise<void> {
    const { model } = turn
    try {
      learn(model, await deps.ask(model.resource))
      turn.failures = 0
      turn.dueAt = performance.now() + freshMs
    } catch (error) {
      turn.dueAt = performance.now() + (retryMs[turn.failures] ?? freshMs)
      turn.failures += 1
      log.debug({ model: model.key, cause: String(error) }, 'cannot list the models of a server')
    }
  }

  /** Servers with the fewest failures come first. */
  async function askAll(): Promise<void> {
    const due = [...servers().values()].filter(({ dueAt }) => dueAt <= performance.now())
    const inOrder = due.sort((a, b) => a.failures - b.failures)
    await forEachConcurrently(inOrder, { concurrency, maxBlockMs, signal: closing.signal }, ask)
    allAsked.resolve()
  }

  void repeat({ step: askAll, restMs, onFault, signal: closing.signal })

  return {
    /** The snapshot in force, with the names that servers list. */
    snapshot(): Snapshot {
      const from = deps.snapshot()
      if (shown?.from !== from) shown = { from, snapshot: names.onto(from, idOf) }
      return shown.snapshot
    },
    /**
     * Resolves once every server has been asked, or after two seconds, so that requests at start are not refused for
     * listed names.
     */
    untilAsked: () => withTimeout(firstListsMs, allAsked.promise),
    /** Records the list of a model's server. */
    note(model: Model, served: readonly ServedModel[]): void {
      if (hasServedNames(model)) learn(model, served)
    },
    close: () => closing.abort(),
  }
}
