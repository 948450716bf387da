import { setTimeout as delay } from 'node:timers/promises'
import { errorMessage } from '../src/runtime/error-message.ts'
import { restAfter } from '../src/runtime/loop.ts'
import { StartError } from '../src/runtime/start-error.ts'
import type { Child } from './child.ts'
import { signal as send } from './run-records.ts'

/** A supervised process. */
export interface SupervisedPart {
  /** Its name in messages: `the service`. */
  readonly name: string
  /** Starts it, initially and after each exit. */
  spawn(): Promise<Child>
  /** Resolves when it is ready; rejects when the signal aborts the wait. */
  ready(signal: AbortSignal): Promise<void>
  /** Its last output, for the message that it did not start. */
  lastWords?(): string
}

const backoff = { firstMs: 1_000, maxMs: 10_000 }
const steadyMs = 60_000

/** See createSupervisor. */
export type Supervisor = ReturnType<typeof createSupervisor>

/**
 * Keeps processes running. A part that exits by itself is restarted after one second, then two, up to ten if it exits
 * repeatedly. `log` gets a sentence for each such event.
 */
export function createSupervisor(log: (line: string) => void) {
  const running: { part: SupervisedPart; child: Child; isReady: boolean }[] = []
  const watches: Promise<void>[] = []
  const ending = new AbortController()

  /** Starts a part for the first time. Rejects with a StartError if it exits before it is ready. */
  async function start(part: SupervisedPart): Promise<void> {
    const entry = { part, child: await part.spawn(), isReady: false }
    if (ending.signal.aborted) {
      // A stop was requested while this process was starting.
      await entry.child.stop()
      ending.signal.throwIfAborted()
    }
    running.push(entry)
    await untilReady(part, entry.child)
    entry.isReady = true
    watches.push(watch(entry))
  }

  async function watch(entry: (typeof running)[number]): Promise<void> {
    let ends = 0
    for (;;) {
      const since = Date.now()
      const how = await entry.child.exited
      entry.isReady = false
      if (ending.signal.aborted) return
      ends = Date.now() - since > steadyMs ? 1 : ends + 1
      const restMs = restAfter(ends, backoff)
      log(`${capital(entry.part.name)} ended (${how}); starting it again in ${restMs / 1000} s`)
      await delay(restMs, undefined, { signal: ending.signal }).catch(() => {})
      if (ending.signal.aborted) return
      try {
        entry.child = await entry.part.spawn()
        if (ending.signal.aborted) return await entry.child.stop()
        await untilBack(entry.part, entry.child)
        entry.isReady = true
        log(`${capital(entry.part.name)} is back`)
      } catch (error) {
        if (!ending.signal.aborted) log(errorMessage(error))
      }
    }
  }

  /** As `untilReady`, but while it runs it may become ready late, with a line of the log for each wait. */
  async function untilBack(part: SupervisedPart, child: Child): Promise<void> {
    let hasEnded = false
    void child.exited.then(() => {
      hasEnded = true
    })
    for (;;) {
      try {
        return await untilReady(part, child)
      } catch (error) {
        if (hasEnded || ending.signal.aborted) throw error
        log(errorMessage(error))
      }
    }
  }

  async function untilReady(part: SupervisedPart, child: Child): Promise<void> {
    const waiting = new AbortController()
    const died = child.exited.then((how) => {
      const said = part.lastWords?.()
      throw new StartError(
        `${capital(part.name)} ended before it was ready (${how})${said ? `: ${said}` : '.'}`,
      )
    })
    died.catch(() => {})
    try {
      const signal = AbortSignal.any([waiting.signal, ending.signal])
      await Promise.race([part.ready(signal), died])
    } finally {
      waiting.abort()
    }
  }

  return {
    start,
    /** Aborted when the shutdown begins, so that no wait outlives it. */
    ending: ending.signal,
    /**
     * Stops every part, the last started first, each within this time if given. Resolves when nothing is left. May be
     * called twice.
     */
    async stop(graceMs?: number): Promise<void> {
      ending.abort()
      for (const entry of running.toReversed()) await entry.child.stop(graceMs)
      await Promise.all(watches)
    },
    /** Passes a signal on to the part with this name, if it is ready to handle it. */
    signal(name: string, signal: NodeJS.Signals): void {
      for (const { part, child, isReady } of running) {
        if (part.name === name && isReady) send(child.pid, signal)
      }
    },
    /** Kills every part at once. */
    kill(): void {
      ending.abort()
      for (const { child } of running) child.kill()
    },
  }
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}
