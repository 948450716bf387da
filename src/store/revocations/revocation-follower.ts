/**
 * Follows the log of revocations: told by the database at once, and asking by itself besides, so
 * that a lost notification costs no more than one interval. Knows at any time whether what this
 * process remembers of keys may still be believed.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
import type { Freshness } from '../freshness.ts'
import type { Sql } from '../postgres/sql.ts'
import { createConfidence } from './confidence.ts'
import { type Listener, startListener } from './listener.ts'
import { startPauseWatch } from './pause-watch.ts'
import {
  everyKey,
  followLog,
  type LogAnswer,
  type LogPosition,
  logRows,
  ownChannel,
  removeReplica,
  revocationChannel,
} from './revocation-log.ts'

export interface RevocationFollowerOptions {
  readonly pool: Sql
  /** Where the connection that listens goes: the pool's own database. */
  readonly url: string
  /** What this process is called where it is waited for; no two that live at a time share it. */
  readonly name: string
  /** Where it runs: what was in the same place before has ended. */
  readonly place: string
  /** Milliseconds between two questions to the log. */
  readonly everyMs: number
  /** How long after the last answer this process may go on serving, in milliseconds. */
  readonly servesMs: number
  /** Forgets these keys, at once. */
  readonly evict: (hashes: readonly string[]) => void
  /** Forgets every key, at once: what was revoked is not known any more. */
  readonly forgetAll: () => void
  /** The database has begun to tell of revocations by itself, or no longer does. */
  readonly onListening?: (listening: boolean) => void
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
  /** Whether revocations are told by the database, not only asked for. */
  readonly listening: boolean
  readonly ageMs: number
  /** Names of the other processes that may be serving, as far as is known. */
  readonly others: readonly string[]
}

/** What one attempt may take: half of it by the connection that listens, the rest by the pool. */
const halfDeadlineMs = 500
/** How often the log is asked while the database does not tell by itself. */
const deafEveryMs = 250
/** How often, at most, while the last question has failed. */
const awayEveryMs = 1_000
/** How long a start tries, and how long it then waits to be told of revocations. */
const startDeadlineMs = 5_000
const startListeningMs = 2_000

/** A follower that does nothing yet, and says `unconfirmed`. */
export function createRevocationFollower(options: RevocationFollowerOptions): RevocationFollower {
  const { pool, name, place, everyMs, servesMs } = options
  const id = randomUUID()
  const replica = { id, name, place, servesMs, unseenMs: 3 * everyMs + 2_000 }
  const watch = startPauseWatch()
  const confidence = createConfidence({ watch, countsMs: everyMs + 6 * halfDeadlineMs })
  const { state, ageMs } = confidence
  let position: LogPosition | undefined
  let others: readonly string[] = []
  let listener: Listener | undefined
  /** When it last heard of anything, itself included. */
  let heardAt = Number.NEGATIVE_INFINITY
  let running: Promise<void> | undefined
  let following: Promise<void> | undefined
  let confirming: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  /** What logs the changes of keys; null while nothing does, so that nothing can be known of them. */
  let source: string | null = ''
  const up = Promise.withResolvers<void>()

  /** Asks over the connection that listens, else over the pool. */
  async function ask(): Promise<{ readonly answer: LogAnswer; readonly sentAt: number }> {
    const connection = listener?.connection()
    const sentAt = watch.now()
    try {
      const answer = await followLog(connection ?? pool, replica, position, halfDeadlineMs)
      return { answer, sentAt }
    } catch (error) {
      if (connection !== undefined) {
        listener?.drop(connection)
        return await ask()
      }
      confidence.failed(sentAt)
      throw error
    }
  }

  /** Reads the log to its end. What is found is forgotten before it is acknowledged. */
  async function readOn(): Promise<void> {
    for (let isDone = false; !isDone && !isStopped; ) {
      const { answer, sentAt } = await ask()
      if (answer.source === null) {
        confidence.failed(sentAt)
        options.evict(answer.hashes)
        if (source !== null) options.onFault(new Error('the triggers that log revocations are off'))
        source = null
        return
      }
      // What was found is acknowledged by the next question.
      isDone = take(answer, answer.source)
      confidence.answered(sentAt)
    }
  }

  /** Forgets what the answer says; true when there was nothing to forget. */
  function take(
    { hashes, isSame, position: next, others: names }: LogAnswer,
    now: string,
  ): boolean {
    const before = { position, source }
    position = next
    source = now
    others = names
    if (before.position === undefined) return false
    // Cut off, or of another history, or what was changed while nothing was logged is not in it.
    const isGap = !isSame || before.source !== now
    if (isGap)
      options.onFault(new Error('the log of revocations may have a gap: keys are read anew'))
    if (isGap || hashes.length > logRows || hashes.includes(everyKey)) options.forgetAll()
    options.evict(hashes)
    return hashes.length === 0 && !isGap
  }

  /** Asks after the call, once for all who call meanwhile. Never rejects. */
  function catchUp(): Promise<void> {
    if (isStopped) return Promise.resolve()
    if (running === undefined) {
      running = readOn()
        .catch(tellFault)
        .finally(() => {
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

  function tellFault(error: unknown): void {
    if (!(error instanceof ServiceError)) options.onFault(error)
  }

  /** Catches up; what neither succeeds nor fails in its time has failed. */
  async function confirmOnce(): Promise<void> {
    const sentAt = watch.now()
    const late = new AbortController()
    const last = catchUp()
    // The question under way may be enough; if not, the next one is.
    const asked = running?.then(() => (state() === 'unconfirmed' ? last : undefined))
    const deadline = delay(2 * halfDeadlineMs, undefined, { signal: late.signal }).catch(() => {})
    await Promise.race([asked, deadline])
    late.abort()
    if (state() === 'unconfirmed') confidence.failed(sentAt)
  }

  function isListening(): boolean {
    const proofMs = 2 * everyMs + 1_000
    return listener?.connection() !== undefined && watch.now() - heardAt < proofMs
  }

  async function tick(): Promise<void> {
    await catchUp()
    const connection = listener?.connection()
    // It answers but does not tell: there may be a pooler in between that keeps no session.
    if (connection !== undefined && !isListening()) listener?.drop(connection)
    const wishMs = state() !== 'confirmed' ? awayEveryMs : isListening() ? everyMs : deafEveryMs
    if (!isStopped) timer = setTimeout(tick, Math.min(everyMs, wishMs))
  }

  function listen(): void {
    listener = startListener({
      url: options.url,
      channels: [revocationChannel, ownChannel(id)],
      onHeard(channel) {
        heardAt = watch.now()
        if (channel === revocationChannel) void catchUp()
      },
      onUp() {
        heardAt = watch.now()
        up.resolve()
        options.onListening?.(true)
        void catchUp()
      },
      onDown() {
        confidence.suspect()
        options.onListening?.(false)
        void catchUp()
      },
    })
  }

  return {
    id,
    state,
    ageMs,
    async confirm() {
      while (state() === 'unconfirmed' && !isStopped) {
        confirming ??= confirmOnce().finally(() => {
          confirming = undefined
        })
        await confirming
      }
    },
    async start() {
      listen()
      const giveUpAt = watch.now() + startDeadlineMs
      while (state() !== 'confirmed') {
        if (watch.now() > giveUpAt) throw new ServiceError('store_unavailable')
        await catchUp()
        if (state() === 'away') await delay(deafEveryMs)
      }
      // It goes without, too; but the first to be told of is seldom long in coming.
      await Promise.race([up.promise, delay(startListeningMs, undefined, { ref: false })])
      void tick()
    },
    stats: () => ({ listening: isListening(), ageMs: ageMs(), others }),
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
      await removeReplica(pool, id, 2 * halfDeadlineMs).catch(() => {})
      await listener?.stop()
      watch.stop()
    },
  }
}
