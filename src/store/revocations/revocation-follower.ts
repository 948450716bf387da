/**
 * Follows the log of revocations by asking for what is new, a few times a second; a notification of
 * the database only makes the next question come at once. Knows at any time whether what this
 * process remembers of keys may still be believed.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
import type { Freshness } from '../freshness.ts'
import type { Sql } from '../postgres/sql.ts'
import { createLease } from './lease.ts'
import { type Listener, startListener } from './listener.ts'
import {
  everyKey,
  followLog,
  type LogAnswer,
  type LogPosition,
  logRows,
  type ReplicaPod,
  removeReplica,
  revocationChannel,
} from './revocation-log.ts'

export interface RevocationFollowerOptions {
  readonly pool: Sql
  /** Where the connection that listens goes: the pool's own database. */
  readonly url: string | (() => string)
  /** What this process is called where it is waited for; no two that live at a time share it. */
  readonly name: string
  /** Where it runs: what was in the same place before has ended. */
  readonly place: string
  readonly pod?: ReplicaPod | undefined
  /** Milliseconds between two questions to the log; a lease is a second. */
  readonly everyMs: number
  /** How long after the last answer this process may go on serving, in milliseconds. */
  readonly servesMs: number
  /** Forgets these keys, at once. */
  readonly evict: (hashes: readonly string[]) => void
  /** Forgets every key, at once: what was revoked is not known any more. */
  readonly forgetAll: () => void
  /** Other processes have not been heard of for five seconds, or no longer: all of those now. */
  readonly onSilent?: (names: readonly string[]) => void
  /** Told with each answer of the pods among these. */
  readonly onSilentPods?: (pods: readonly ReplicaPod[]) => void
  /** The database does not answer, and why; undefined: it does again. */
  readonly onAway?: (cause: unknown) => void
  /** A failure that is no outage; the next question comes as planned. */
  readonly onFault: (error: unknown) => void
}

export interface RevocationFollower extends Freshness {
  /** What it is called in the table of replicas. */
  readonly id: string
  /**
   * Settles when this process is among those that a revocation waits for; nothing may have been
   * remembered before. Rejects with `store_unavailable` when the database does not answer.
   */
  start(): Promise<void>
  stats(): FollowerStats
  /** The process is no longer waited for, so it must not serve any more. In bounded time. */
  stop(): Promise<void>
}

export interface FollowerStats {
  readonly ageMs: number
  /** Names of the other processes that may be serving, as far as is known. */
  readonly others: readonly string[]
  /** Of them, those that have not been heard of for five seconds. */
  readonly silent: readonly string[]
}

/** What one question may take: the next one then fails within the lease, so that nobody waits. */
const deadlineMs = 700
/** What is remembered is believed for so long after the last question that was answered. */
const leaseMs = 1_000
/** Between two questions while the database is away. */
const awayEveryMs = 250
/** Another row of this process's place is of one that has ended, once unseen for so long. */
export const unseenMs = 5_000
/** How long a start tries. */
const startDeadlineMs = 5_000

/** A follower that does nothing yet, and says `unconfirmed`. */
export function createRevocationFollower(options: RevocationFollowerOptions): RevocationFollower {
  const { pool, name, place, pod, everyMs, servesMs } = options
  const id = randomUUID()
  const replica = { id, name, place, pod, servesMs, unseenMs }
  const lease = createLease(leaseMs)
  const { state, ageMs } = lease
  let position: LogPosition | undefined
  let others: readonly string[] = []
  let silent: readonly string[] = []
  let isAway = false
  let listener: Listener | undefined
  let running: Promise<void> | undefined
  let following: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  /** What logs the changes of keys; null while nothing does, so that nothing can be known of them. */
  let source: string | null = ''
  let server = ''

  /** Reads the log to its end. What is found is forgotten before it is acknowledged. */
  async function readOn(): Promise<void> {
    for (let isDone = false; !isDone && !isStopped; ) {
      const sentAt = lease.now()
      try {
        isDone = take(await followLog(pool, replica, position, deadlineMs))
      } catch (error) {
        lease.fail(sentAt)
        if (!(error instanceof ServiceError)) options.onFault(error)
        else if (!isAway && state() === 'away') {
          isAway = true
          options.onAway?.(error.cause ?? error)
        }
        return
      }
      if (isAway) options.onAway?.(undefined)
      isAway = false
      if (source === null) return lease.fail(sentAt)
      // What was found is acknowledged by the next question.
      lease.renew(sentAt)
    }
  }

  /** Forgets what the answer says; true when nothing is left to be acknowledged. */
  function take(answer: LogAnswer): boolean {
    const { hashes } = answer
    const before = { position, source, server }
    source = answer.source
    server = answer.server
    others = answer.others
    if (answer.silent.join() !== silent.join()) options.onSilent?.(answer.silent)
    silent = answer.silent
    options.onSilentPods?.(answer.silentPods)
    if (source === null) {
      if (before.source !== null) tell('the triggers that log revocations are off')
      options.evict(hashes)
      return true
    }
    position = answer.position
    if (before.position === undefined) return false
    // Cut off, or of another history, or what was changed while nothing was logged is not in it.
    const isGap = !answer.isSame || before.source !== source
    if (isGap) tell('the log of revocations may have a gap: keys are read anew')
    // Another server may have given numbers of transactions anew that the snapshot takes for known.
    const isOther = before.server !== server
    const isTooMuch = hashes.length > logRows || hashes.includes(everyKey)
    if (isGap || isOther || isTooMuch) options.forgetAll()
    options.evict(hashes)
    return hashes.length === 0 && !isGap && !isOther
  }

  function tell(what: string): void {
    options.onFault(new Error(what))
  }

  /** Asks after the call, once for all who call meanwhile. Never rejects. */
  function catchUp(): Promise<void> {
    if (isStopped) return Promise.resolve()
    if (running === undefined) {
      running = readOn().finally(() => {
        running = undefined
      })
      return running
    }
    following ??= running.then(() => {
      following = undefined
      return catchUp()
    })
    return following
  }

  async function tick(): Promise<void> {
    await catchUp()
    const nextMs = state() === 'away' ? Math.min(everyMs, awayEveryMs) : everyMs
    if (!isStopped) timer = setTimeout(tick, nextMs)
  }

  return {
    id,
    state,
    ageMs,
    async confirm() {
      // The question under way may be enough, or from before a pause; the next one is sure to be.
      for (let turn = 0; turn < 3 && state() === 'unconfirmed' && !isStopped; turn += 1) {
        await (running ?? catchUp())
      }
      if (state() === 'unconfirmed') lease.fail(lease.now())
    },
    async start() {
      const giveUpAt = lease.now() + startDeadlineMs
      while (state() !== 'confirmed') {
        if (lease.now() > giveUpAt) throw new ServiceError('store_unavailable')
        await catchUp()
        if (state() === 'away') await delay(awayEveryMs)
      }
      const { url } = options
      listener = startListener({ url, channel: revocationChannel, onHeard: () => void catchUp() })
      void tick()
    },
    stats: () => ({ ageMs: ageMs(), others, silent }),
    async stop() {
      isStopped = true
      clearTimeout(timer)
      listener?.stop()
      await running
      await removeReplica(pool, id, 2 * deadlineMs).catch(() => {})
    },
  }
}
