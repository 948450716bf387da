/**
 * Follows the log of revocations by polling a few times a second; a notification only makes the next poll happen at
 * once. Reports at any time whether this process may still trust its cache of keys.
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ServiceError } from '../../formats/errors.ts'
import { repeat } from '../../runtime/loop.ts'
import { createOutage } from '../../runtime/outage.ts'
import { databaseRetryMs } from '../../store/postgres/connection.ts'
import {
  type NotificationListener,
  startNotificationListener,
} from '../../store/postgres/listener.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { EndedKey } from './ended-keys.ts'
import { createCacheLease } from './lease.ts'
import {
  allKeysMarker,
  followLog,
  increasesMarker,
  type LogPosition,
  type LogState,
  maxLogRows,
  type ReplicaPod,
  type ReplicaReport,
  removeReplica,
  revocationChannel,
  revocationTriggers,
} from './revocation-log.ts'

export interface RevocationFollowerOptions extends Omit<ReplicaReport, 'id' | 'unseenMs'> {
  readonly pool: Sql
  /** The URL for the listening connection: the pool's own database. */
  readonly url: string | (() => string)
  /** Milliseconds between two polls; a lease is one second. */
  readonly everyMs: number
  /** Evicts these keys, synchronously; `ended`: which of them have ended. */
  readonly evict: (hashes: readonly string[], ended: readonly EndedKey[]) => void
  /**
   * Evicts every key, synchronously, because revocations may be unknown. Nothing is acknowledged before it resolves;
   * it never rejects.
   */
  readonly forgetAll: () => void | Promise<void>
  /**
   * Reads the increases of limits, at first and when they may have changed. Nothing is acknowledged while it rejects; the
   * cache of keys is trusted meanwhile, so it must take less time than a poll.
   */
  readonly readIncreases?: () => Promise<void>
  /** Called when the set of other processes that have been silent for five seconds changes, with all of them. */
  readonly onSilent?: (names: readonly string[]) => void
  /** Called after each poll with the pods among these. */
  readonly onSilentPods?: (pods: readonly ReplicaPod[]) => void
  /** Called with the cause when the database does not respond, and with undefined when it does again. */
  readonly onUnavailable?: (cause: unknown) => void
  /**
   * Called when the set of triggers that should log revocations and are off or missing changes,
   * with all of them. While there are any, the cache is not trusted, as in an outage.
   */
  readonly onTriggersOff?: (names: readonly string[]) => void
  /** The log was cut off or has another history, as after a restore: cached keys are read again. */
  readonly onGap?: () => void
  /** A failure that is no outage; polling continues. */
  readonly onFault: (error: unknown) => void
}

export type RevocationFollower = ReturnType<typeof createRevocationFollower>

/** Timeout of one poll: short enough that it fails within the lease, so that no request waits. */
const deadlineMs = 700
/** How long the cache is trusted after the last successful poll was sent. */
const leaseMs = 1_000
/** Another row with this process's place belongs to an ended process once it is this old. */
export const endedAfterMs = 5_000
/** How long a start retries. */
const startDeadlineMs = 5_000

/** Creates a follower that is not started, in state `unconfirmed`. */
export function createRevocationFollower(options: RevocationFollowerOptions) {
  const { pool, name, place, pod, zones, everyMs, servesMs } = options
  const id = randomUUID()
  const replica = { id, name, place, pod, zones, servesMs, unseenMs: endedAfterMs }
  const lease = createCacheLease(leaseMs)
  const { state, ageMs } = lease
  let position: LogPosition | undefined
  /** Undefined before the first poll. */
  let last: LogState | undefined
  const outage = createOutage((cause) => options.onUnavailable?.(cause))
  let listener: NotificationListener | undefined
  let running: Promise<void> | undefined
  let following: Promise<void> | undefined
  const stopped = new AbortController()
  const { signal } = stopped
  let forgetting: void | Promise<void>
  /** Whether increases may be in force that were not read. */
  let isBehind = true

  /** Reads the log to its end. Found keys are evicted before they are acknowledged. */
  async function readOn(): Promise<void> {
    for (let isDone = false; !isDone && !signal.aborted; ) {
      const sentAt = lease.now()
      const acknowledged = position
      try {
        isDone = applyState(await followLog(pool, replica, position, deadlineMs))
        // Renewed before the wait: with a lease, keys in doubt are read again; without one, they are refused. The next
        // poll acknowledges these changes.
        if (isLogged()) lease.renew(sentAt)
        await forgetting
      } catch (error) {
        lease.fail(sentAt)
        if (!(error instanceof ServiceError)) options.onFault(error)
        else if (state() === 'unavailable') outage.note(error.cause ?? error)
        return
      }
      outage.note(undefined)
      if (!isLogged()) return lease.fail(sentAt)
      if (!(await readIncreases())) {
        position = acknowledged
        return
      }
    }
  }

  /** Without the triggers, changes of keys may be missed. */
  function isLogged(): boolean {
    return last?.source !== null
  }

  /** Whether everything in the log is applied here. */
  async function readIncreases(): Promise<boolean> {
    if (!isBehind) return true
    try {
      await options.readIncreases?.()
      isBehind = false
    } catch (error) {
      if (!(error instanceof ServiceError)) options.onFault(error)
    }
    return !isBehind
  }

  /** Applies a response; true if nothing is left to acknowledge. */
  function applyState(state: LogState): boolean {
    const { hashes, ended, silent, source } = state
    const [before, from] = [last, position]
    last = state
    if (silent.join() !== (before?.silent ?? []).join()) options.onSilent?.(silent)
    options.onSilentPods?.(state.silentPods)
    const off = triggersOff(state)
    if (off.join() !== triggersOff(before).join()) options.onTriggersOff?.(off)
    if (source === null) {
      options.evict(hashes, ended)
      return true
    }
    position = state.position
    if (from === undefined) return false
    // The log is cut off or has another history, or the triggers were off, so changes may be
    // missing in it.
    const isGap = !state.isSame || before?.source !== source
    if (isGap) options.onGap?.()
    // Another server may have reused transaction numbers that the snapshot counts as known.
    const isOther = from.server !== state.position.server
    const isTooMuch = hashes.length > maxLogRows || hashes.includes(allKeysMarker)
    const isLost = isGap || isOther || isTooMuch
    forgetting = isLost ? options.forgetAll() : undefined
    isBehind ||= isLost || hashes.includes(increasesMarker)
    options.evict(hashes, ended)
    return hashes.length === 0 && !isGap && !isOther
  }

  /** Polls after the call, once for all concurrent callers. Never rejects. */
  function catchUp(): Promise<void> {
    if (signal.aborted) return Promise.resolve()
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

  return {
    /** Its id in the table of replicas. */
    id,
    state,
    ageMs,
    /** For how long the cache is trusted if no further poll succeeds, in milliseconds; 0 if it is not. */
    leaseLeftMs: () => (state() === 'confirmed' ? leaseMs - ageMs() : 0),
    async confirm() {
      // The poll in flight may be enough, or from before a pause; the next one is sure to be.
      for (let turn = 0; turn < 3 && state() === 'unconfirmed' && !signal.aborted; turn += 1) {
        await (running ?? catchUp())
      }
      if (state() === 'unconfirmed') lease.fail(lease.now())
    },
    /**
     * Resolves when revocations wait for this process; nothing may be cached before that. Rejects
     * with `store_unavailable` if the database does not respond; it may then be called again.
     */
    async start() {
      const giveUpAt = lease.now() + startDeadlineMs
      while (state() !== 'confirmed' || isBehind) {
        if (signal.aborted || lease.now() > giveUpAt) throw new ServiceError('store_unavailable')
        await catchUp()
        if (state() === 'unavailable' || isBehind) await delay(databaseRetryMs)
      }
      const { url } = options
      listener = startNotificationListener({
        url,
        channels: [revocationChannel],
        onNotification: () => void catchUp(),
      })
      const restMs = () =>
        state() === 'unavailable' ? Math.min(everyMs, databaseRetryMs) : everyMs
      void repeat({ step: catchUp, restMs, onFault: options.onFault, signal })
    },
    stats() {
      const { others = [], silent = [], otherZones = [] } = last ?? {}
      return {
        ageMs: ageMs(),
        /** Names of the other processes that may be serving, as last known. */
        others,
        /** Which of them have been silent for five seconds. */
        silent,
        /** Versions of the time zone rules that others have and this process has not. */
        otherZones,
      }
    },
    /** Revocations no longer wait for this process, so it must have stopped serving. Takes bounded time. */
    async stop() {
      stopped.abort()
      listener?.stop()
      await running
      await removeReplica(pool, id, 2 * deadlineMs).catch(() => {})
    },
  }
}

function triggersOff(state: LogState | undefined): readonly string[] {
  return state === undefined
    ? []
    : revocationTriggers.filter((name) => !state.logging.includes(name))
}
