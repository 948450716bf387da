import { setTimeout as delay } from 'node:timers/promises'
import type { Child } from './child.ts'
import { StartError } from './start-error.ts'

/** One of the processes that make up the whole. */
export interface Part {
  /** As a sentence names it: `the service`. */
  readonly name: string
  /** Starts it; the first time and whenever it has died. */
  spawn(): Promise<Child>
  /** Settles when it does its work; rejects when the signal says that nobody waits any more. */
  ready(signal: AbortSignal): Promise<void>
  /** What it said last, for the message that it did not come up. */
  lastWords?(): string
}

const longestBackoffMs = 10_000
const steadyMs = 60_000

/** See createSupervisor. */
export type Supervisor = ReturnType<typeof createSupervisor>

/**
 * Keeps processes running. A part that dies by itself is started again, after one second, then two,
 * up to ten while it keeps dying. `log` gets a sentence for each such event.
 */
export function createSupervisor(log: (line: string) => void) {
  const running: { part: Part; child: Child; isReady: boolean }[] = []
  const watches: Promise<void>[] = []
  const ending = new AbortController()

  /** Starts a part for the first time. Rejects with a StartError when it dies before it is ready. */
  async function start(part: Part): Promise<void> {
    const entry = { part, child: await part.spawn(), isReady: false }
    if (ending.signal.aborted) {
      // Asked to stop meanwhile, when this one could not be stopped yet.
      await entry.child.stop()
      ending.signal.throwIfAborted()
    }
    running.push(entry)
    await untilReady(part, entry.child)
    entry.isReady = true
    watches.push(watch(entry))
  }

  async function watch(entry: (typeof running)[number]): Promise<void> {
    let backoffMs = 1_000
    for (;;) {
      const since = Date.now()
      const how = await entry.child.exited
      entry.isReady = false
      if (ending.signal.aborted) return
      if (Date.now() - since > steadyMs) backoffMs = 1_000
      log(`${capital(entry.part.name)} ended (${how}); starting it again in ${backoffMs / 1000} s`)
      await delay(backoffMs, undefined, { signal: ending.signal }).catch(() => {})
      backoffMs = Math.min(backoffMs * 2, longestBackoffMs)
      if (ending.signal.aborted) return
      try {
        entry.child = await entry.part.spawn()
        if (ending.signal.aborted) return await entry.child.stop()
        await untilReady(entry.part, entry.child)
        entry.isReady = true
        log(`${capital(entry.part.name)} is back`)
      } catch (error) {
        if (!ending.signal.aborted) log(error instanceof Error ? error.message : String(error))
      }
    }
  }

  async function untilReady(part: Part, child: Child): Promise<void> {
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
    /** Aborted once everything is to end: no wait should outlive it. */
    ending: ending.signal,
    /** Ends every part, the last started first. Settles when nothing is left. Safe to call twice. */
    async stop(): Promise<void> {
      ending.abort()
      for (const entry of running.toReversed()) await entry.child.stop()
      await Promise.all(watches)
    },
    /** Passes a signal on to a part of this name; one that is not ready would not know it yet. */
    signal(name: string, signal: NodeJS.Signals): void {
      for (const { part, child, isReady } of running) {
        if (part.name === name && isReady) process.kill(child.pid, signal)
      }
    },
    /** Ends every part at once, without a chance to finish. */
    kill(): void {
      ending.abort()
      for (const { child } of running) child.kill()
    },
  }
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}
