/** Writes objects to the cluster: what differs, in turn, and no more than so many a second. */

import { setTimeout as delay } from 'node:timers/promises'
import { type KubeClient, KubeError, type KubeRequest } from '../kubernetes/client.ts'
import type { KubeObject } from '../kubernetes/list.ts'

/** Something that is ours to write: an object, or the status of one. */
export interface Target {
  /** Its own path; of a status with `/status`. */
  readonly path: string
  /** The object as the cluster has it now; undefined: it is not there. */
  readonly current: () => KubeObject | undefined
  /** What makes it what it shall be; undefined: it is. Asked when its turn has come. */
  readonly next: (current: KubeObject | undefined) => KubeRequest | undefined
}

export interface ObjectWriterOptions {
  readonly client: KubeClient
  /** Whether writing is ours now. */
  readonly mayWrite: () => boolean
  readonly onProblem: (path: string, problem: string) => void
  readonly writesPerSecond?: number
  readonly signal: AbortSignal
}

const longestRestMs = 60_000
/** Urgent targets of one change: one of thousands of models must not wait behind a change of all. */
const mostUrgent = 100
/** Targets compared in one turn of the event loop. */
const atOnce = 20
/** Milliseconds within which a watch tells of what was written, if it is still there. */
const echoMs = 10_000

export function startObjectWriter(options: ObjectWriterOptions) {
  const { client, mayWrite, onProblem, signal, writesPerSecond = 20 } = options
  const urgent = new Map<string, Target>()
  const routine = new Map<string, Target>()
  const failures = new Map<string, number>()
  const echoes = new Map<string, Echo>()
  let written = 0
  let wake = (): void => {}
  signal.addEventListener('abort', () => wake(), { once: true })

  /** Whether something had to be written. */
  async function bring(target: Target): Promise<boolean> {
    const { path, current, next } = target
    const before = current()
    const request = next(before)
    const echo = echoes.get(path)
    echoes.delete(path)
    if (request === undefined) return false
    const text = JSON.stringify(request)
    // Written already, only that the watch has not told of it yet.
    if (echo?.text === text && echo.before === before) {
      echoes.set(path, echo)
      return false
    }
    await client.send({ ...request, signal })
    written += 1
    const sent = { before, text }
    echoes.set(path, sent)
    setTimeout(() => {
      if (echoes.get(path) !== sent) return
      echoes.delete(path)
      lookAgain(target)
    }, echoMs).unref()
    return true
  }

  function retry(target: Target, error: unknown): void {
    const { path } = target
    const failed = failures.get(path) ?? 0
    failures.set(path, failed + 1)
    // It went before its turn came, of which the watch tells; or its kind did, and may come back.
    const isGone = error instanceof KubeError && error.status === 404
    if (failed > 0 && !isGone)
      onProblem(path, error instanceof Error ? error.message : String(error))
    const restMs = Math.min(500 * 2 ** failed, longestRestMs)
    setTimeout(lookAgain, restMs, target).unref()
  }

  function lookAgain(target: Target): void {
    const { path } = target
    if (!urgent.has(path) && !routine.has(path)) routine.set(path, target)
    wake()
  }

  async function run(): Promise<void> {
    let looked = 0
    while (!signal.aborted) {
      const queue = urgent.size > 0 ? urgent : routine
      const [next] = queue
      if (next === undefined || !mayWrite()) {
        const changed = new Promise<void>((settle) => {
          wake = settle
        })
        // Leadership comes without a word; an empty queue stays so until there is one.
        await Promise.race(
          next === undefined ? [changed] : [changed, delay(200, undefined, { signal })],
        )
        continue
      }
      const [path, target] = next
      queue.delete(path)
      try {
        if (await bring(target)) await delay(1_000 / writesPerSecond, undefined, { signal })
        failures.delete(path)
      } catch (error) {
        if (signal.aborted) return
        retry(target, error)
        await delay(1_000 / writesPerSecond, undefined, { signal })
      }
      looked += 1
      if (looked % atOnce === 0) await new Promise(setImmediate)
    }
  }

  run().catch(() => {})
  return {
    /**
     * These may be something else than they shall; by path, the last word counts. Those that are
     * urgent go before all others, unless there are too many of them to be before anybody.
     */
    look(targets: Iterable<Target>, isUrgent = false): void {
      const all = [...targets]
      const isFirst = isUrgent && all.length <= mostUrgent
      for (const target of all) {
        if (isFirst) routine.delete(target.path)
        const queue = isFirst || urgent.has(target.path) ? urgent : routine
        queue.set(target.path, target)
      }
      wake()
    },
    /** Requests that were answered so far. */
    get written(): number {
      return written
    },
    /** Targets that are still to be looked at. */
    get waiting(): number {
      return urgent.size + routine.size
    },
  }
}

/** A request that was answered, and what it was made for. */
interface Echo {
  readonly before: KubeObject | undefined
  readonly text: string
}
