/** Whether everybody who may be serving knows of a revocation. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Sql } from '../postgres/sql.ts'
import { type Acknowledgements, readAcknowledgements } from './revocation-log.ts'

/** What a revocation's answer says of those who may be serving the key. */
export interface Propagation {
  /** `pending`: some replica may still let the key pass. */
  readonly state: 'confirmed' | 'pending'
  /** How many may be serving, the one that answers included; each is counted in the next or named. */
  readonly replicas: number
  readonly acknowledged: number
  /** Names of those that have not said that they know, as far as is known; only when pending. */
  readonly waitingFor?: readonly string[]
}

export interface PropagationStats {
  readonly confirmed: number
  readonly pending: number
  /** How long the last confirmation took, in milliseconds. */
  readonly lastMs: number | undefined
}

export interface PropagationWatch {
  /**
   * Waits until every replica that may be serving has followed the log to where it ends at the
   * call, or until the deadline. To be called once the revocation is committed and this process has
   * forgotten the key. Never rejects.
   */
  wait(): Promise<Propagation>
  stats(): PropagationStats
}

export interface PropagationWatchOptions {
  readonly pool: Sql
  /** This process's own; it is not waited for. */
  readonly id: string
  /** Names of the others as last known, for when the database can't say. */
  readonly others: () => readonly string[]
  /** Milliseconds that a revocation is held back at most; 1 second when absent. */
  readonly deadlineMs?: number
}

interface Waiter {
  /** Where the log ended when it was first seen. */
  target: number | undefined
  readonly answer: (propagation: Propagation) => void
  readonly giveUpAt: number
  last: Propagation | undefined
}

/** Between two questions, in milliseconds: from the first to the later ones. */
const pauses = { first: 10, longest: 50, growth: 1.5 }

/** One loop asks for all that wait; there is none while nobody does. */
export function createPropagationWatch(options: PropagationWatchOptions): PropagationWatch {
  const { pool, id, deadlineMs = 1_000 } = options
  const waiting = new Set<Waiter>()
  const counted = { confirmed: 0, pending: 0 }
  let lastMs: number | undefined
  let wake = new AbortController()
  let isLooping = false

  async function loop(): Promise<void> {
    let pauseMs = pauses.first
    while (waiting.size > 0) {
      const asking = [...waiting]
      const seen = await look()
      if (seen !== undefined) for (const waiter of asking) advance(waiter, seen)
      const now = performance.now()
      for (const waiter of waiting) if (now >= waiter.giveUpAt) finish(waiter)
      if (waiting.size === 0) break
      wake = new AbortController()
      const isFresh = [...waiting].some(({ target }) => target === undefined) && seen !== undefined
      if (isFresh) pauseMs = pauses.first
      else await delay(pauseMs, undefined, { signal: wake.signal }).catch(() => {})
      pauseMs = Math.min(pauses.longest, pauseMs * pauses.growth)
    }
    isLooping = false
  }

  /** undefined: the database did not say. */
  async function look(): Promise<Acknowledgements | undefined> {
    const nextEnd = Math.min(...[...waiting].map(({ giveUpAt }) => giveUpAt))
    const leftMs = Math.max(1, nextEnd - performance.now())
    try {
      return await readAcknowledgements(pool, leftMs)
    } catch {
      return undefined
    }
  }

  function advance(waiter: Waiter, { newest, logged, replicas }: Acknowledgements): void {
    waiter.target ??= newest
    const { target } = waiter
    const others = replicas.filter((replica) => replica.id !== id)
    // What is not logged nobody can acknowledge.
    const late = others.filter(({ acknowledged }) => !logged || acknowledged < target)
    waiter.last = {
      state: late.length === 0 ? 'confirmed' : 'pending',
      replicas: others.length + 1,
      acknowledged: others.length + 1 - late.length,
      ...(late.length > 0 && { waitingFor: late.map(({ name }) => name) }),
    }
    if (late.length === 0) finish(waiter)
  }

  function finish(waiter: Waiter): void {
    waiting.delete(waiter)
    const propagation = waiter.last ?? unknown()
    counted[propagation.state] += 1
    if (propagation.state === 'confirmed') {
      lastMs = performance.now() - (waiter.giveUpAt - deadlineMs)
    }
    waiter.answer(propagation)
  }

  /** Nobody could be asked: those known of have not said anything. */
  function unknown(): Propagation {
    const waitingFor = options.others()
    return { state: 'pending', replicas: waitingFor.length + 1, acknowledged: 1, waitingFor }
  }

  return {
    wait() {
      return new Promise((answer) => {
        const giveUpAt = performance.now() + deadlineMs
        waiting.add({ target: undefined, answer, giveUpAt, last: undefined })
        wake.abort()
        if (isLooping) return
        isLooping = true
        void loop()
      })
    },
    stats: () => ({ ...counted, lastMs }),
  }
}
