/**
 * Counters that several processes share through Redis. The request path never waits for Redis once
 * a counter is known: it reads a local view. Additions go into the view at once and are flushed in
 * batches, and each flush returns the new sums. While Redis is unavailable the view continues, and
 * additions are kept (one sum per counter) until it is back.
 *
 * Exactly once: a sender has one batch in flight and repeats it with the same number until Redis
 * responds; Redis adds each number once. A Redis that has lost acknowledged data is restored
 * (restore.ts).
 */

import type { Counter, CounterState } from '../../../core/decision/counter.ts'
import { ServiceError } from '../../../core/decision/errors.ts'
import { atMost } from '../../../runtime/at-most.ts'
import {
  type JournaledCounters,
  type Report,
  type ResettableCounters,
  rememberedMs,
  resetsKeptMs,
  streamedWithinMs,
} from '../../counters.ts'
import { createBatchSender } from './batch-sender.ts'
import { createCounterFetch } from './fetch.ts'
import { createRedisJournals } from './journals.ts'
import { allTags, keyPrefixOf, storeKeyOf, tagOf } from './keys.ts'
import type { CounterCommands } from './scripts.ts'
import { queueReport, type Sender, type SharedCounter } from './shared-counter.ts'
import {
  addReported,
  addTokens,
  createView,
  endWindow,
  isOpen,
  unansweredIn,
  usedIn,
} from './view.ts'

export interface RedisCountersOptions {
  readonly commands: CounterCommands
  /** In a Cluster a script may access only keys with the same hash tag. */
  readonly cluster: boolean
  /** Milliseconds between two flushes. */
  readonly flushMs: number
  /** The result for an unknown counter while Redis is unavailable. */
  readonly onLoss: 'allow' | 'deny'
  /** Called for each acknowledged batch with its number of counters and duration (ms). */
  readonly onFlushed?: (counters: number, tookMs: number) => void
  /** Called once for each change. */
  readonly onUnavailable: (unavailable: boolean, cause: unknown) => void
  /** Called when Redis has lost its data, which is then restored; once for each hash tag. */
  readonly onOther?: () => void
  /** How long a new Redis accepts only sums and no reports (ms); 5 s by default. */
  readonly youngMs?: number
  /** Name of the journal with the reported responses, different for each gateway. */
  readonly journal?: string
  /** A monotonic clock in milliseconds; `performance.now` by default. */
  readonly monotonic?: () => number
  /** Milliseconds since the epoch, for the age of a report; `Date.now` by default. */
  readonly wallClock?: () => number
}

export interface RedisCounters extends JournaledCounters, ResettableCounters {
  /** Whether Redis does not respond, or cannot write. */
  readonly unavailable: boolean
  /** How often Redis, or one of its shards, was found to have lost its data. */
  readonly losses: number
  /** Counters in the local view. */
  readonly size: number
  /** Counters with tokens that Redis has not acknowledged; checks each. */
  readonly unflushed: number
  /**
   * Flushes the rest, for at most this long; returns the number of counters whose tokens were lost.
   * Reports are not included, because the journal has them.
   */
  stop(graceMs: number): Promise<number>
}

/**
 * A counter that is unused for this long is dropped from the view, and read again when needed. An
 * open one only beyond this number, because a Redis that lost its data is restored from the view.
 */
const closedIdleMs = 60_000
const openIdleMs = 600_000
const maxOpen = 200_000
const heartbeatMs = 1_000
/** The least number of counters checked at each heartbeat. */
const minSwept = 1_000
/** Longer than all processes need to detect a new Redis and send what they know. */
const defaultYoungMs = 5_000
/** How long the view of a counter far from its limit is fresh enough. */
const farMs = 80
/** How long a reader waits for fresh sums. */
const freshWithinMs = 1_000

/** JournaledCounters over Redis. */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { commands, cluster, journal = '', flushMs, onLoss, youngMs = defaultYoungMs } = options
  const monotonic = options.monotonic ?? (() => performance.now())
  const wallClock = options.wallClock ?? Date.now
  const counters = new Map<string, SharedCounter>()
  const senders = new Map<string, Sender>()
  const failing = new Set<unknown>()
  let sweep = counters.values()
  let losses = 0
  const fetchUnknown = createCounterFetch({ monotonic, failing, onOutcome })
  // All at once, because each has a store to watch, with or without counters.
  for (const tag of cluster ? allTags : ['all']) senders.set(tag, senderOf(tag))
  const heartbeat = setInterval(beat, heartbeatMs)
  heartbeat.unref()

  function senderFor(tag: string): Sender {
    return senders.get(cluster ? tag : 'all') as Sender
  }

  function sharedOf({ key, windowMs }: Counter, now: number): SharedCounter {
    const existing = counters.get(key)
    if (existing !== undefined) return existing
    // Two old ones for each new one, so that no request pays for a whole sweep.
    forgetSome(2, now)
    const tag = tagOf(key)
    const counter = {
      ...createView(windowMs),
      key,
      keyPrefix: keyPrefixOf(tag),
      sender: senderFor(tag),
      sumEpoch: '',
      lastUsedAt: now,
      named: 0,
      isDue: false,
      place: 0,
    }
    counters.set(key, counter)
    return counter
  }

  /**
   * Uses this process's clock for the window that a report opens, and for whether it still counts.
   */
  function addReport(hit: readonly Counter[], tokens: number, report: Report): void {
    const instant = monotonic()
    const ageMs = Math.max(0, wallClock() - report.endedAt)
    const byStream = report.by === 'stream'
    if (ageMs >= (byStream ? streamedWithinMs : rememberedMs)) return
    const endedAt = instant - ageMs
    const open: SharedCounter[] = []
    for (const each of hit) {
      if (ageMs >= each.windowMs) continue
      const counter = sharedOf(each, instant)
      open.push(counter)
      counter.lastUsedAt = instant
      if (byStream) addReported(counter, tokens, instant, endedAt)
    }
    const sendBy = byStream ? endedAt + streamedWithinMs : Number.POSITIVE_INFINITY
    // Both stream and journal must choose the same sender.
    const fallback = (): Sender => senderFor(tagOf(hit[0]?.key ?? report.id))
    queueReport(report, { counters: open, tokens, endedAt, sendBy }, fallback)
  }

  function senderOf(tag: string): Sender {
    const sender: Sender = createBatchSender({
      ...{ commands, tag, journal, flushMs, youngMs, monotonic, onOutcome },
      ...(options.onFlushed && { onFlushed: options.onFlushed }),
      counters: () => [...counters.values()].filter((counter) => counter.sender === sender),
      find: (key) => counters.get(key),
      onOther() {
        losses += 1
        options.onOther?.()
      },
    })
    return sender
  }

  /** Checks the next counters in turn. */
  function forgetSome(count: number, now: number): void {
    for (let i = 0; i < count; i += 1) {
      const { value: counter, done } = sweep.next()
      if (done) {
        sweep = counters.values()
        return
      }
      const idleMs = now - counter.lastUsedAt
      if (idleMs < closedIdleMs || counter.sender.holds(counter)) continue
      // An open window is only dropped if it can be read again.
      const isIdle = idleMs >= openIdleMs && counters.size > maxOpen && failing.size === 0
      if (!isOpen(counter, now) || isIdle) counters.delete(counter.key)
    }
  }

  /** A sender could reach Redis, or could not. */
  function onOutcome(who: unknown, error?: unknown): void {
    const wasUnavailable = failing.size > 0
    if (error === undefined) {
      failing.delete(who)
    } else {
      failing.add(who)
    }
    const isUnavailable = failing.size > 0
    if (isUnavailable !== wasUnavailable) options.onUnavailable(isUnavailable, error)
  }

  /** Without any traffic, an outage or a loss of data must still be noticed. */
  function beat(): void {
    for (const sender of senders.values()) sender.beat()
    // Covers all of them within about a minute.
    forgetSome(Math.max(minSwept, counters.size / 60), monotonic())
  }

  function toState(counter: SharedCounter, instant: number, now: number): CounterState | undefined {
    if (!isOpen(counter, instant)) return undefined
    return { used: usedIn(counter), resetsAt: Math.ceil(now + counter.endsAt - instant) }
  }

  function isUnavailable({ sender }: SharedCounter): boolean {
    return failing.has(sender)
  }

  /** Finishes a read that needs unknown counters. */
  function readUnknown(
    asked: readonly Counter[],
    missing: readonly SharedCounter[],
    now: number,
  ): (CounterState | undefined)[] | Promise<(CounterState | undefined)[]> {
    const begin = monotonic()
    const answer = (): (CounterState | undefined)[] => {
      if (onLoss === 'deny' && missing.some(({ known }) => !known)) throw outOfReach()
      const instant = monotonic()
      const wallClock = now + instant - begin
      return asked.map((counter) => toState(sharedOf(counter, instant), instant, wallClock))
    }
    const reachable = missing.filter((counter) => !isUnavailable(counter))
    if (reachable.length === 0) return answer()
    return fetchUnknown(reachable).then(answer)
  }

  function read(
    asked: readonly Counter[],
    now: number,
  ): (CounterState | undefined)[] | Promise<(CounterState | undefined)[]> {
    const instant = monotonic()
    const states: (CounterState | undefined)[] = []
    let missing: SharedCounter[] | undefined
    for (const each of asked) {
      const counter = sharedOf(each, instant)
      counter.lastUsedAt = instant
      if (!counter.known) {
        missing ??= []
        missing.push(counter)
      } else {
        const maxAgeMs = maxAgeFor(each, counter, flushMs)
        if (instant - counter.sumAt >= maxAgeMs) {
          counter.sender.schedule(counter, Math.max(1, maxAgeMs / flushMs))
        }
      }
      states.push(toState(counter, instant, now))
    }
    return missing === undefined ? states : readUnknown(asked, missing, now)
  }

  /** Resolves once Redis has sent the sums of the known ones again, or after a second. */
  async function refresh(asked: readonly Counter[]): Promise<void> {
    const senders = new Set<Sender>()
    for (const each of asked) {
      const counter = sharedOf(each, monotonic())
      if (!counter.known || isUnavailable(counter)) continue
      counter.sender.schedule(counter, 1)
      senders.add(counter.sender)
    }
    if (senders.size === 0) return
    // A stop of the counters rejects; the view is what is left then.
    await atMost(freshWithinMs, Promise.allSettled([...senders].map((sender) => sender.kept())))
  }

  function countUnflushed(): number {
    const now = monotonic()
    let count = 0
    for (const counter of counters.values()) {
      if (isOpen(counter, now) && unansweredIn(counter) > 0) count += 1
    }
    return count
  }

  return {
    get unavailable() {
      return failing.size > 0
    },
    get losses() {
      return losses
    },
    get size() {
      return counters.size
    },
    get unflushed() {
      return countUnflushed()
    },
    read,
    async readFresh(asked, now) {
      const begin = monotonic()
      await refresh(asked)
      return read(asked, now + monotonic() - begin)
    },
    add(hit, tokens, _now, report) {
      if (report !== undefined) return addReport(hit, tokens, report)
      const instant = monotonic()
      for (const each of hit) {
        const counter = sharedOf(each, instant)
        counter.lastUsedAt = instant
        addTokens(counter, tokens, instant)
        counter.sender.schedule(counter, 1)
      }
    },
    async reset(asked, at) {
      const byTag = Map.groupBy(asked, ({ key }) => (cluster ? tagOf(key) : 'all'))
      for (const [tag, each] of byTag) {
        const keys = each.map(({ key }) => keyPrefixOf(tagOf(key)) + key)
        const args = [at, resetsKeptMs, ...each.map(({ key }) => key)]
        await commands.reset([storeKeyOf(tag), ...keys], args).catch(() => {
          throw outOfReach()
        })
        for (const { key } of each) senderFor(tag).noteReset(key, at)
      }
      for (const { key } of asked) {
        const counter = counters.get(key)
        if (counter !== undefined) endWindow(counter)
      }
    },
    async kept() {
      await Promise.all([...senders.values()].map((sender) => sender.kept()))
    },
    ...createRedisJournals({ commands, cluster, journal, wallClock }),
    async stop(graceMs) {
      clearInterval(heartbeat)
      const lost = await Promise.all([...senders.values()].map((sender) => sender.stop(graceMs)))
      return lost.reduce((sum, each) => sum + each, 0)
    },
  }
}

/**
 * How long the view of a counter that is only read is fresh enough: one interval near its limit.
 * Refreshing dominates the cost of such a read, and far from the limit other processes have half
 * the limit to use before it matters.
 */
function maxAgeFor({ limit }: Counter, counter: SharedCounter, flushMs: number): number {
  if (limit === undefined || usedIn(counter) >= limit / 2) return flushMs
  return Math.max(flushMs, farMs)
}

/** Without a cause, which is logged once when Redis becomes unavailable, not for each request. */
function outOfReach(): ServiceError {
  return new ServiceError('counters_unavailable')
}
