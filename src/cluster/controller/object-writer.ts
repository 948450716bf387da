/** Writes objects that differ to the cluster, in turn and at a limited rate. */

import { setTimeout as delay } from 'node:timers/promises'
import { valueAt } from '../../formats/fields.ts'
import {
  isRefusal,
  type KubeClient,
  KubeError,
  type KubeRequest,
  pauseOf,
} from '../../kubernetes/client.ts'
import type { KubeObject } from '../../kubernetes/list.ts'
import { BoundedMap } from '../../runtime/bounded-map.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { createRestTimer, restAfter } from '../../runtime/loop.ts'
import { createWriteQueue } from './write-queue.ts'

/** An object that we write, or the status of one. */
export interface WriteTarget {
  /** The path of the object; for a status with `/status` at its end. */
  readonly path: string
  /** The object in the cluster, or undefined if it does not exist. */
  readonly current: () => KubeObject | undefined
  /**
   * The request that brings the object to its desired state, or undefined if it has that state. Called at the target's
   * turn.
   */
  readonly next: (current: KubeObject | undefined) => KubeRequest | undefined
}

interface ObjectWriterOptions {
  readonly client: KubeClient
  /** Whether this process may write now. */
  readonly mayWrite: () => boolean
  readonly onProblem: (path: string, problem: string) => void
  readonly signal: AbortSignal
  /** Within this many milliseconds a watch reports what was written, if it still exists. */
  readonly echoMs?: number
}

const writesPerSecond = 20
const backoff = { firstMs: 500, maxMs: 60_000 }
/** After this many writes of one object it is written only every so many milliseconds: another controller may undo each. */
const burst = 30
const paceMs = 5_000
/** A write that the API server has not stored is left out for so many milliseconds, while nothing changes. */
const unstoredMs = 240_000
/** Targets compared in one turn of the event loop. */
const atOnce = 20

export type ObjectWriter = ReturnType<typeof startObjectWriter>

export function startObjectWriter(options: ObjectWriterOptions) {
  const { client, mayWrite, onProblem, signal, echoMs = 10_000 } = options
  const queue = createWriteQueue<WriteTarget>()
  const failures = new Map<string, number>()
  /** Collections in which writes fail for a reason that concerns all their objects, and that was reported. */
  const outages = new Set<string>()
  const echoes = new Map<string, Echo>()
  /** The recent writes of each object: their number, which falls by one with each pause, and when it was counted. */
  const paces = new BoundedMap<string, { readonly count: number; readonly at: number }>(20_000)
  /** Objects that wait because they were written many times, and those of which that was reported. */
  const resting = new Set<string>()
  const contested = new Set<string>()
  let written = 0
  const alarm = createRestTimer(signal)

  const recentWrites = (path: string): number => {
    const { count = 0, at = 0 } = paces.get(path) ?? {}
    return Math.max(0, count - (performance.now() - at) / paceMs)
  }

  function postpone(target: WriteTarget): void {
    const { path } = target
    if (resting.has(path)) return
    resting.add(path)
    const again = (): void => {
      resting.delete(path)
      requeue(target)
    }
    setTimeout(again, paceMs).unref()
  }

  /** Returns whether something had to be written. */
  async function reconcile(target: WriteTarget): Promise<boolean> {
    const { path, current, next } = target
    const before = current()
    const request = next(before)
    const echo = echoes.get(path)
    echoes.delete(path)
    if (request === undefined) return false
    const text = JSON.stringify(request)
    // Already written, but the watch has not reported it yet.
    if (echo?.text === text && echo.before === before) {
      echoes.set(path, echo)
      return false
    }
    const recent = recentWrites(path)
    if (recent >= burst) {
      postpone(target)
      return false
    }
    const response = await client.send({ ...request, signal })
    paces.set(path, { count: recent + 1, at: performance.now() })
    if (Math.floor(recent) === burst - 1 && !contested.has(path)) {
      contested.add(path)
      onProblem(path, 'it was written many times: does another controller write it, too?')
    }
    outages.delete(collectionOf(path))
    written += 1
    const sent = { before, text }
    echoes.set(path, sent)
    // If the version is the same, an older CRD has dropped a field or another manager owns it; no watch reports that.
    const isStored = !isVersion(response, before)
    const expire = (): void => {
      if (echoes.get(path) !== sent) return
      echoes.delete(path)
      if (isStored) requeue(target)
    }
    setTimeout(expire, isStored ? echoMs : unstoredMs).unref()
    return true
  }

  function retry(target: WriteTarget, error: unknown): void {
    const { path } = target
    const failed = failures.get(path) ?? 0
    failures.set(path, failed + 1)
    // The object was deleted before its turn, which the watch reports; or its kind was, and may
    // come back.
    const isGone = error instanceof KubeError && error.status === 404
    if (failed > 0 && !isGone) report(path, error)
    setTimeout(requeue, restAfter(failed + 1, backoff), target).unref()
  }

  /** A permission that is missing, or a server that fails, is reported once, not for each of thousands of objects. */
  function report(path: string, error: unknown): void {
    const isOfServer = !(error instanceof KubeError) || error.status >= 500 || error.status === 429
    const isOfObject = !isOfServer && !isRefusal(error)
    if (isOfObject || !outages.has(collectionOf(path))) onProblem(path, errorMessage(error))
    if (!isOfObject) outages.add(collectionOf(path))
  }

  function requeue(target: WriteTarget): void {
    queue.addAgain(target)
    alarm.ring()
  }

  async function run(): Promise<void> {
    let checked = 0
    while (!signal.aborted) {
      const target = mayWrite() ? queue.take() : undefined
      if (target === undefined) {
        // Leadership is gained without a notification; an empty queue waits for new targets.
        await alarm.rest(queue.size === 0 ? undefined : 200)
        continue
      }
      try {
        if (await reconcile(target)) await delay(1_000 / writesPerSecond, undefined, { signal })
        failures.delete(target.path)
      } catch (error) {
        if (signal.aborted) return
        retry(target, error)
        // The API server asks for a pause of this client, not of one object.
        await delay(Math.max(pauseOf(error), 1_000 / writesPerSecond), undefined, { signal })
      }
      checked += 1
      if (checked % atOnce === 0) await new Promise(setImmediate)
    }
  }

  run().catch(() => {})
  return {
    /**
     * Checks whether these have their desired state; for each path the last call counts. Urgent
     * targets come first, unless there are too many of them.
     */
    enqueue(targets: Iterable<WriteTarget>, isUrgent = false): void {
      queue.add([...targets], isUrgent)
      alarm.ring()
    },
    /** Successful requests so far. */
    get written(): number {
      return written
    },
    /** Targets that are still to be checked. */
    get waiting(): number {
      return queue.size
    },
  }
}

/** Whether this response is the object as it was. */
function isVersion(response: unknown, before: KubeObject | undefined): boolean {
  const version = before?.metadata.resourceVersion
  return version !== undefined && valueAt(response, ['metadata', 'resourceVersion']) === version
}

/** The path of an object's kind and namespace; of all their statuses, for the path of a status. */
function collectionOf(path: string): string {
  return path.replace(/\/[^/]+(\/status)?$/, '/*$1')
}

/** A successful request and its target. */
interface Echo {
  readonly before: KubeObject | undefined
  readonly text: string
}
