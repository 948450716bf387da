/** Whether all processes that may be serving have applied a revocation, or another change of keys. */

import { createRestTimer, repeat, restAfter } from '../../runtime/loop.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import {
  type Acknowledgement,
  findUnlogged,
  increasesMarker,
  logRevocations,
  migrationOf,
  type RevokedKey,
  readAcknowledgements,
} from './revocation-log.ts'

/** The part of a revocation's response about processes that may be serving the key. */
export interface Propagation {
  /** `pending`: some replica may still accept the key. */
  readonly state: 'confirmed' | 'pending'
  /** How many may be serving, including this one; each is counted in the next field or named. */
  readonly replicas: number
  readonly acknowledged: number
  /** Names of those that have not acknowledged, if known; only when pending. */
  readonly waitingFor?: readonly string[]
}

export type PropagationWatch = ReturnType<typeof createPropagationWatch>

interface PropagationWatchOptions {
  readonly pool: Sql
  /** This process's own id. */
  readonly id: string
  /** Names of the other processes as last known, for when the database is unavailable. */
  readonly others: () => readonly string[]
  /** Called with the number of revocations that were missing in the log, so that its triggers must have been off. */
  readonly onUnlogged?: (keys: number) => void
  /**
   * Stores revoked keys outside of the database. Returns false if that failed or took too long;
   * `waitingFor` then contains `keptAs`.
   */
  readonly keep?: (revoked: readonly RevokedKey[]) => Promise<boolean>
  readonly keptAs?: string
  /** Maximum delay of a revocation's response in milliseconds; 1 second by default. */
  readonly deadlineMs?: number
}

interface Logged {
  /** Transactions that must be known everywhere. */
  readonly transactions: readonly string[]
  /** Whether knowing them is enough. */
  readonly isLogged: boolean
}

interface Waiter extends Logged {
  /** The migration that a process must know to apply them. */
  readonly needs: number
  readonly settle: (propagation: Propagation) => void
  readonly giveUpAt: number
  last: Propagation | undefined
}

/** Rests between two polls. */
const rests = { firstMs: 10, maxMs: 50, growth: 1.5 }

/** One loop polls for all waiters, and rests while there are none. */
export function createPropagationWatch(options: PropagationWatchOptions) {
  const { pool, id, deadlineMs = 1_000 } = options
  const waiting = new Set<Waiter>()
  const counted = { confirmed: 0, pending: 0 }
  /** Duration of the last confirmation, in milliseconds. */
  let lastMs: number | undefined
  const { signal } = new AbortController()
  const alarm = createRestTimer(signal)
  let polls = 0
  const restMs = () => (waiting.size === 0 ? undefined : restAfter(polls, rests))
  void repeat({
    ...{ step: poll, restMs, restsFirst: true, alarm, signal },
    onFault(bug) {
      throw bug
    },
  })

  async function poll(): Promise<void> {
    if (waiting.size === 0) return
    const asking = [...waiting]
    const seen = await ask()
    if (seen !== undefined) for (const waiter of asking) advance(waiter, seen)
    const now = performance.now()
    for (const waiter of waiting) if (now >= waiter.giveUpAt) finish(waiter)
    polls += 1
  }

  /** Returns undefined if the database did not respond. */
  async function ask(): Promise<readonly Acknowledgement[] | undefined> {
    const nextEnd = Math.min(...[...waiting].map(({ giveUpAt }) => giveUpAt))
    const transactions = new Set([...waiting].flatMap((waiter) => waiter.transactions))
    try {
      return await readAcknowledgements(pool, [...transactions], leftUntil(nextEnd))
    } catch {
      return undefined
    }
  }

  function advance(waiter: Waiter, replicas: readonly Acknowledgement[]): void {
    // Includes this process: another one may have ended an earlier secret of the key just before.
    const late = replicas.filter((replica) =>
      waiter.isLogged
        ? replica.knows < waiter.needs ||
          replica.missing.some((transaction) => waiter.transactions.includes(transaction))
        : replica.id !== id,
    )
    const all = replicas.some((replica) => replica.id === id) ? replicas : [id, ...replicas]
    waiter.last = {
      state: late.length === 0 ? 'confirmed' : 'pending',
      replicas: all.length,
      acknowledged: all.length - late.length,
      ...(late.length > 0 && { waitingFor: late.map(({ name }) => name) }),
    }
    if (late.length === 0 || !waiter.isLogged) finish(waiter)
  }

  function finish(waiter: Waiter): void {
    waiting.delete(waiter)
    waiter.settle(waiter.last ?? unknown(waiter))
  }

  /**
   * The database is unavailable: the last known processes have not acknowledged, and this one has not read increases.
   */
  function unknown({ needs }: Pick<Waiter, 'needs'>): Propagation {
    const waitingFor = options.others()
    const acknowledged = needs === migrationOf.increases ? 0 : 1
    return { state: 'pending', replicas: waitingFor.length + 1, acknowledged, waitingFor }
  }

  /** The transactions to wait for, once the log is sure to have them; rejects during an outage. */
  async function find(revoked: readonly RevokedKey[], giveUpAt: number): Promise<Logged> {
    const unlogged = await findUnlogged(pool, revoked, leftUntil(giveUpAt))
    if (unlogged.length > 0) options.onUnlogged?.(unlogged.length)
    const transactions = revoked.map(({ transaction }) => transaction)
    if (unlogged.length > 0 || revoked.length === 0) {
      const hashes = revoked.length === 0 ? [''] : unlogged.map(({ hash }) => hash)
      transactions.push(await logRevocations(pool, hashes, leftUntil(giveUpAt)))
    }
    return { transactions: [...new Set(transactions)], isLogged: unlogged.length === 0 }
  }

  async function waitForAll(
    needs: number,
    log: (giveUpAt: number) => Promise<Logged>,
  ): Promise<Propagation> {
    const giveUpAt = performance.now() + deadlineMs
    const logged = await log(giveUpAt).catch(() => undefined)
    if (logged === undefined) return unknown({ needs })
    return await new Promise((settle) => {
      waiting.add({ ...logged, needs, settle, giveUpAt, last: undefined })
      polls = 0
      alarm.ring()
    })
  }

  return {
    /**
     * Waits until every replica that may be serving has read the log rows of these revocations (without any: all that
     * was revoked before the call), or until the deadline. Call it after they are committed and this process has
     * evicted the keys. Revocations missing in the log are reported, logged now, and `pending`. Never rejects. With
     * `capped` the keys have other caps and have not ended; a replica of an older version never applies that.
     */
    async wait(revoked: readonly RevokedKey[] = [], capped?: 'capped'): Promise<Propagation> {
      const since = performance.now()
      const [known, isKept] = await Promise.all([
        waitForAll(capped ? migrationOf.caps : 0, (giveUpAt) => find(revoked, giveUpAt)),
        capped ?? options.keep?.(revoked) ?? true,
      ])
      const waitingFor = [...(known.waitingFor ?? []), options.keptAs ?? 'the revocation log']
      const propagation: Propagation = isKept ? known : { ...known, state: 'pending', waitingFor }
      counted[propagation.state] += 1
      if (propagation.state === 'confirmed') lastMs = performance.now() - since
      return propagation
    },
    /**
     * Waits for all changes of increases that were committed before the call. They are logged again, since the
     * trigger on their table may be off. Never rejects.
     */
    waitForIncreases: (): Promise<Propagation> =>
      waitForAll(migrationOf.increases, async (giveUpAt) => {
        const logging = logRevocations(pool, [increasesMarker], leftUntil(giveUpAt))
        return { transactions: [await logging], isLogged: true }
      }),
    stats: () => ({ ...counted, lastMs }),
  }
}

function leftUntil(instant: number): number {
  return Math.max(1, instant - performance.now())
}
