/** Writes statuses to the cluster: what differs, in turn, and no more than so many a second. */

import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { ObjectStatus } from '../core/object-status.ts'
import { type KubeClient, KubeError } from '../kubernetes/client.ts'
import type { KubeObject } from '../kubernetes/list.ts'

/** An object whose status is ours to write. */
export interface Target {
  /** Its own path; `/status` is added. */
  readonly path: string
  readonly apiVersion: string
  readonly kind: string
  /** As the cluster has it now; undefined: it is gone. */
  readonly current: () => KubeObject | undefined
  /** What it shall carry; made when its turn has come, from what holds then. */
  readonly wanted: (current: KubeObject) => ObjectStatus | undefined
}

export interface StatusWriterOptions {
  readonly client: KubeClient
  /** Whether writing is ours now. */
  readonly mayWrite: () => boolean
  readonly onProblem: (path: string, problem: string) => void
  readonly writesPerSecond?: number
  readonly signal: AbortSignal
}

export interface StatusWriter {
  /** These may carry something else than they shall; by path, the last word counts. */
  look(targets: Iterable<Target>): void
  /** Statuses written so far. */
  readonly written: number
  /** Objects that are still to be looked at. */
  readonly waiting: number
}

const longestRestMs = 60_000
/** Objects compared in one turn of the event loop. */
const atOnce = 20

export function startStatusWriter(options: StatusWriterOptions): StatusWriter {
  const { client, mayWrite, onProblem, signal, writesPerSecond = 20 } = options
  const queue = new Map<string, Target>()
  const failures = new Map<string, number>()
  let written = 0
  let wake = (): void => {}
  signal.addEventListener('abort', () => wake(), { once: true })

  /** Whether it had to be written. */
  async function bring(target: Target): Promise<boolean> {
    const current = target.current()
    const status = current && target.wanted(current)
    if (current === undefined || status === undefined || isSame(current.status, status))
      return false
    const { name, namespace } = current.metadata
    await client.send({
      method: 'PATCH',
      path: `${target.path}/status?fieldManager=tollgate-controller&force=true`,
      contentType: 'application/apply-patch+yaml',
      body: {
        apiVersion: target.apiVersion,
        kind: target.kind,
        metadata: { name, ...(namespace !== undefined && { namespace }) },
        status,
      },
      signal,
    })
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
      if (!queue.has(path)) queue.set(path, target)
      wake()
    }, restMs).unref()
  }

  async function run(): Promise<void> {
    let looked = 0
    while (!signal.aborted) {
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
    look(targets) {
      for (const target of targets) queue.set(target.path, target)
      wake()
    },
    get written() {
      return written
    },
    get waiting() {
      return queue.size
    },
  }
}

/** Whether an object carries this status; what others have added to it is theirs. */
function isSame(before: unknown, wanted: ObjectStatus): boolean {
  if (typeof before !== 'object' || before === null) return false
  const carried = before as Readonly<Record<string, unknown>>
  return Object.entries(wanted).every(([field, value]) => isDeepStrictEqual(carried[field], value))
}
