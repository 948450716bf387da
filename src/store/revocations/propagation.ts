/** Whether everybody who may be serving knows of a revocation. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Sql } from '../postgres/sql.ts'
import {
  type Acknowledgement,
  findUnlogged,
  logRevocations,
  type RevokedKey,
  readAcknowledgements,
} from './revocation-log.ts'

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

export type PropagationWatch = ReturnType<typeof createPropagationWatch>

export interface PropagationWatchOptions {
  readonly pool: Sql
  /** This process's own; it is not waited for. */
  readonly id: string
  /** Names of the others as last known, for when the database cannot say. */
  readonly others: () => readonly string[]
  /** Told how many revocations were missing in the log, which means that its triggers were off. */
  readonly onUnlogged?: (keys: number) => void
  /**
   * Keeps revoked keys outside of the database; false: it could not, in time. What stands then for
   * that in `waitingFor` is `keptAs`.
   */
  readonly keep?: (revoked: readonly RevokedKey[]) => Promise<boolean>
  readonly keptAs?: string
  /** Milliseconds that a revocation is held back at most; 1 second when absent. */
  readonly deadlineMs?: number
}

interface Waiter {
  /** To be known everywhere. */
  readonly transactions: readonly string[]
  /** Whether knowing of them is enough. */
  readonly isLogged: boolean
  readonly answer: (propagation: Propagation) => void
  readonly giveUpAt: number
  last: Propagation | undefined
}

/** Between two questions, in milliseconds: from the first to the later ones. */
const pauses = { first: 10, longest: 50, growth: 1.5 }

/** One loop asks for all that wait; there is none while nobody does. */
export function createPropagationWatch(options: PropagationWatchOptions) {
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
      const isFresh = [...waiting].some((waiter) => !asking.includes(waiter)) && seen !== undefined
      if (isFresh) pauseMs = pauses.first
      else await delay(pauseMs, undefined, { signal: wake.signal }).catch(() => {})
      pauseMs = Math.min(pauses.longest, pauseMs * pauses.growth)
    }
    isLooping = false
  }

  /** undefined: the database did not say. */
  async function look(): Promise<readonly Acknowledgement[] | undefined> {
    const nextEnd = Math.min(...[...waiting].map(({ giveUpAt }) => giveUpAt))
    const transactions = new Set([...waiting].flatMap((waiter) => waiter.transactions))
    try {
      return await readAcknowledgements(pool, [...transactions], leftUntil(nextEnd))
    } catch {
      return undefined
    }
  }

  function advance(waiter: Waiter, replicas: readonly Acknowledgement[]): void {
    const others = replicas.filter((replica) => replica.id !== id)
    const late = others.filter(
      ({ missing }) =>
        !waiter.isLogged ||
        missing.some((transaction) => waiter.transactions.includes(transaction)),
    )
    waiter.last = {
      state: late.length === 0 ? 'confirmed' : 'pending',
      replicas: others.length + 1,
      acknowledged: others.length + 1 - late.length,
      ...(late.length > 0 && { waitingFor: late.map(({ name }) => name) }),
    }
    if (late.length === 0 || !waiter.isLogged) finish(waiter)
  }

  function finish(waiter: Waiter): void {
    waiting.delete(waiter)
    waiter.answer(waiter.last ?? unknown())
  }

  /** Nobody could be asked: those known of have not said anything. */
  function unknown(): Propagation {
    const waitingFor = options.others()
    return { state: 'pending', replicas: waitingFor.length + 1, acknowledged: 1, waitingFor }
  }

  /** The transactions to wait for, once it is sure that the log has them; rejects with an outage. */
  async function find(
    revoked: readonly RevokedKey[],
    giveUpAt: number,
  ): Promise<Pick<Waiter, 'transactions' | 'isLogged'>> {
    const unlogged = await findUnlogged(pool, revoked, leftUntil(giveUpAt))
    if (unlogged.length > 0) options.onUnlogged?.(unlogged.length)
    const transactions = revoked.map(({ transaction }) => transaction)
    if (unlogged.length > 0 || revoked.length === 0) {
      const hashes = revoked.length === 0 ? [''] : unlogged.map(({ hash }) => hash)
      transactions.push(await logRevocations(pool, hashes, leftUntil(giveUpAt)))
    }
    return { transactions: [...new Set(transactions)], isLogged: unlogged.length === 0 }
  }

  async function waitForOthers(revoked: readonly RevokedKey[]): Promise<Propagation> {
    const giveUpAt = performance.now() + deadlineMs
    const found = await find(revoked, giveUpAt).catch(() => undefined)
    if (found === undefined) return unknown()
    return await new Promise((answer) => {
      waiting.add({ ...found, answer, giveUpAt, last: undefined })
      wake.abort()
      if (isLooping) return
      isLooping = true
      void loop()
    })
  }

  return {
    /**
     * Waits until every replica that may be serving has read the rows of the log that stand for these
     * revocations (without any: all that was revoked before the call), or until the deadline. To be
     * called once they are committed and this process has forgotten the keys. What is not in the log
     * is told, logged now, and `pending`. Never rejects.
     */
    async wait(revoked: readonly RevokedKey[] = []): Promise<Propagation> {
      const since = performance.now()
      const [known, isKept] = await Promise.all([
        waitForOthers(revoked),
        options.keep?.(revoked) ?? true,
      ])
      const waitingFor = [...(known.waitingFor ?? []), options.keptAs ?? 'the revocation log']
      const propagation: Propagation = isKept ? known : { ...known, state: 'pending', waitingFor }
      counted[propagation.state] += 1
      if (propagation.state === 'confirmed') lastMs = performance.now() - since
      return propagation
    },
    stats: (): PropagationStats => ({ ...counted, lastMs }),
  }
}

function leftUntil(instant: number): number {
  return Math.max(1, instant - performance.now())
}
