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

export interface ObjectWriter {
  /**
   * These may be something else than they shall; by path, the last word counts. Those that are
   * urgent go before all others.
   */
  look(targets: Iterable<Target>, isUrgent?: boolean): void
  /** Requests that were answered so far. */
  readonly written: number
  /** Targets that are still to be looked at. */
  readonly waiting: number
}

const longestRestMs = 60_000
/** Targets compared in one turn of the event loop. */
const atOnce = 20
/** Milliseconds within which a watch has told of what was written. */
const echoMs = 10_000

export function startObjectWriter(options: ObjectWriterOptions): ObjectWriter {
  const { client, mayWrite, onProblem, signal, writesPerSecond = 20 } = options
  const urgent = new Map<string, Target>()
  const routine = new Map<string, Target>()
  const failures = new Map<string, number>()
  const echoes = new Map<string, Echo>()
  let written = 0
  let wake = (): void => {}
  signal.addEventListener('abort', () => wake(), { once: true })

  /** Whether something had to be written. */
  async function bring({ path, current, next }: Target): Promise<boolean> {
    const before = current()
    const request = next(before)
    const echo = echoes.get(path)
    echoes.delete(path)
    if (request === undefined) return false
    const text = JSON.stringify(request)
    // Written already, only that the watch has not told of it yet.
    if (echo?.text === text && echo.before === before && performance.now() < echo.until) {
      echoes.set(path, echo)
      return false
    }
    await client.send({ ...request, signal })
    echoes.set(path, { before, text, until: performance.now() + echoMs })
    written += 1
    return true
  }

  function retry(target: Target, error: unknown): void {
    const { path } = target
    // It went before its turn came, or is going.
    if (error instanceof KubeError && error.status === 404) return
    const failed = failures.get(path) ?? 0
    failures.set(path, failed + 1)
    if (failed > 0) onProblem(path, error instanceof Error ? error.message : String(error))
    const restMs = Math.min(500 * 2 ** failed, longestRestMs)
    setTimeout(() => {
      if (!urgent.has(path) && !routine.has(path)) routine.set(path, target)
      wake()
    }, restMs).unref()
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
    look(targets, isUrgent = false) {
      for (const target of targets) {
        if (isUrgent) routine.delete(target.path)
        const queue = isUrgent || urgent.has(target.path) ? urgent : routine
        queue.set(target.path, target)
      }
      wake()
    },
    get written() {
      return written
    },
    get waiting() {
      return urgent.size + routine.size
    },
  }
}

/** A request that was answered, and what it was made for. */
interface Echo {
  readonly before: KubeObject | undefined
  readonly text: string
  /** By `performance.now()`. */
  readonly until: number
}
