/**
 * Counters that several processes share through Redis. The request path never waits for it once a
 * counter is known: a local view answers at once, additions are applied to it at once and flushed
 * in batches, and each flush brings the new sums back. While Redis is away the view goes on, and
 * what was added is kept (a sum for each counter) until it is back.
 *
 * Exactly once: a sender has one batch under way, and repeats it under the same number until it is
 * answered; Redis adds a number once. A Redis that has lost what it acknowledged is told anew
 * (restore.ts).
 */

import type { Counter, CounterState } from '../../../core/counter.ts'
import { ServiceError } from '../../../core/errors.ts'
import {
  type JournaledCounters,
  type Report,
  rememberedMs,
  streamedWithinMs,
} from '../../counters.ts'
import { createBatchSender, type Sender } from './batch-sender.ts'
import { createCounterFetch } from './fetch.ts'
import { createRedisJournals } from './journals.ts'
import { allTags, keyPrefixOf, tagOf } from './keys.ts'
import type { CounterCommands } from './scripts.ts'
import { type SharedCounter, tellReport } from './shared-counter.ts'
import { addReported, addTokens, createView, isOpen, unansweredIn, usedIn } from './view.ts'

export interface RedisCountersOptions {
  readonly commands: CounterCommands
  /** In a Cluster a script may touch the keys of one hash tag only. */
  readonly cluster: boolean
  /** Milliseconds between two flushes. */
  readonly flushMs: number
  /**
   * The same where what has been added is little beside what each limit has left, so that nobody decides
   * otherwise for not knowing of it; `flushMs` unless told.
   */
  readonly farFlushMs?: number
  /** What to think of a counter never seen while Redis is away. */
  readonly onLoss: 'allow' | 'deny'
  /** Told of each batch that was answered, how many counters it had and how long it took (ms). */
  readonly onFlushed?: (counters: number, tookMs: number) => void
  /** Told once for each change. */
  readonly onAway: (away: boolean, cause: unknown) => void
  /** Told when Redis has lost what it held, which it is then told again; once for each hash tag. */
  readonly onOther?: () => void
  /** For how long a Redis that is new takes sums alone, and no reports (ms); 5 s unless told. */
  readonly youngMs?: number
  /** Name of the journal whose responses are told of, another one for each gateway. */
  readonly journal?: string
  /** Milliseconds of a clock that never steps; `performance.now` unless told. */
  readonly monotonic?: () => number
  /** Milliseconds since the epoch, for the age of a report; `Date.now` unless told. */
  readonly wallClock?: () => number
}

export interface RedisCounters extends JournaledCounters {
  /** Whether Redis fails to answer, or to write. */
  readonly away: boolean
  /** How often Redis, or one of its shards, was found to have lost its data. */
  readonly losses: number
  /** Counters in the local view. */
  readonly size: number
  /** Counters with tokens that Redis has not acknowledged yet; looks at each. */
  readonly unflushed: number
  /**
   * Flushes what is left, for at most so long; answers of how many counters tokens had to be given
   * up. Reports that could not be sent are not among them: the journal has those.
   */
  stop(graceMs: number): Promise<number>
}

/**
 * A counter that nobody has used for so long is forgotten, and asked for again when it is. An open one only
 * where there are more than so many: a Redis that has lost its data is told of what is known.
 */
const closedIdleMs = 60_000
const openIdleMs = 600_000
const mostOpen = 200_000
const heartbeatMs = 1_000
/** Looked at with each heartbeat at least, of those that may be forgotten. */
const leastSwept = 1_000
/** Longer than all processes need to notice that Redis is another one, and to say what they know. */
const usualYoungMs = 5_000
/** What is known of a counter far from its limit is good enough for so long. */
const farMs = 80
/** Of a limit, what a process may have added without having told of it soon. */
const untoldShare = 1 / 64

/** JournaledCounters over Redis. */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { commands, cluster, journal = '', flushMs, onLoss, youngMs = usualYoungMs } = options
  const farIntervals = Math.max(1, (options.farFlushMs ?? flushMs) / flushMs)
  const monotonic = options.monotonic ?? (() => performance.now())
  const wallClock = options.wallClock ?? Date.now
  const counters = new Map<string, SharedCounter>()
  const senders = new Map<string, Sender>()
  const failing = new Set<unknown>()
  let sweep = counters.values()
  let losses = 0
  const fetchUnknown = createCounterFetch({ monotonic, failing, onOutcome })
  // All of them at once: each has a store to watch, whether it has counters yet or not.
  for (const tag of cluster ? allTags : ['all']) senders.set(tag, senderOf(tag))
  const heartbeat = setInterval(beat, heartbeatMs)
  heartbeat.unref()

  function senderFor(tag: string): Sender {
    return senders.get(cluster ? tag : 'all') as Sender
  }

  function sharedOf({ key, windowMs }: Counter, now: number): SharedCounter {
    const existing = counters.get(key)
    if (existing !== undefined) return existing
    // Two old ones for each new one, so that no request pays for a sweep.
    forgetSome(2, now)
    const tag = tagOf(key)
    const counter = {
      ...createView(windowMs),
      key,
      keyPrefix: keyPrefixOf(tag),
      sender: senderFor(tag),
      toldIn: '',
      wantedAt: now,
    }
    counters.set(key, counter)
    return counter
  }

  /** By this process's clock: a window that a report opens, and whether it is still counted. */
  function addReport(hit: readonly Counter[], tokens: number, report: Report): void {
    const instant = monotonic()
    const ageMs = Math.max(0, wallClock() - report.endedAt)
    const byStream = report.by === 'stream'
    if (ageMs >= (byStream ? streamedWithinMs : rememberedMs)) return
    const endedAt = instant - ageMs
    const open: SharedCounter[] = []
    let intervals = farIntervals
    for (const each of hit) {
      if (ageMs >= each.windowMs) continue
      const counter = sharedOf(each, instant)
      open.push(counter)
      counter.wantedAt = instant
      if (byStream) addReported(counter, tokens, instant, endedAt)
      if (!mayWait(each, counter)) intervals = 1
    }
    const sendBy = byStream ? endedAt + streamedWithinMs : Number.POSITIVE_INFINITY
    // By what stream and journal have in common.
    const usual = senderFor(tagOf(hit[0]?.key ?? report.id))
    tellReport(report, { counters: open, tokens, endedAt, sendBy }, usual, intervals)
  }

  function senderOf(tag: string): Sender {
    const sender: Sender = createBatchSender({
      ...{ commands, tag, journal, flushMs, youngMs, monotonic, onOutcome },
      ...(options.onFlushed && { onFlushed: options.onFlushed }),
      counters: () => [...counters.values()].filter((counter) => counter.sender === sender),
      onOther() {
        losses += 1
        options.onOther?.()
      },
    })
    return sender
  }

  /** Looks at the next so many, in turn. */
  function forgetSome(count: number, now: number): void {
    for (let i = 0; i < count; i += 1) {
      const { value: counter, done } = sweep.next()
      if (done) {
        sweep = counters.values()
        return
      }
      const idleMs = now - counter.wantedAt
      if (idleMs < closedIdleMs || counter.sender.holds(counter)) continue
      // An open window is only forgotten while it can be asked for again.
      const isIdle = idleMs >= openIdleMs && counters.size > mostOpen && failing.size === 0
      if (!isOpen(counter, now) || isIdle) counters.delete(counter.key)
    }
  }

  /** `who` could reach Redis, or could not. */
  function onOutcome(who: unknown, error?: unknown): void {
    const wasAway = failing.size > 0
    if (error === undefined) {
      failing.delete(who)
    } else {
      failing.add(who)
    }
    const isAway = failing.size > 0
    if (isAway !== wasAway) options.onAway(isAway, error)
  }

  /** With nobody asking for anything, it still has to be told when Redis goes away or loses its data. */
  function beat(): void {
    for (const sender of senders.values()) sender.beat()
    // All of them within a minute or so.
    forgetSome(Math.max(leastSwept, counters.size / 60), monotonic())
  }

  function toState(counter: SharedCounter, instant: number, now: number): CounterState | undefined {
    if (!isOpen(counter, instant)) return undefined
    return { used: usedIn(counter), resetsAt: Math.ceil(now + counter.endsAt - instant) }
  }

  function isAway({ sender }: SharedCounter): boolean {
    return failing.has(sender)
  }

  /** The rest of a read that met counters never seen. */
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
    const reachable = missing.filter((counter) => !isAway(counter))
    if (reachable.length === 0) return answer()
    return fetchUnknown(reachable).then(answer)
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
    get away() {
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
    read(asked, now) {
      const instant = monotonic()
      const states: (CounterState | undefined)[] = []
      let missing: SharedCounter[] | undefined
      for (const each of asked) {
        const counter = sharedOf(each, instant)
        counter.wantedAt = instant
        if (!counter.known) {
          missing ??= []
          missing.push(counter)
        } else {
          const patienceMs = patienceFor(each, counter, flushMs)
          if (instant - counter.toldAt >= patienceMs) {
            counter.sender.schedule(counter, Math.max(1, patienceMs / flushMs))
          }
        }
        states.push(toState(counter, instant, now))
      }
      return missing === undefined ? states : readUnknown(asked, missing, now)
    },
    add(hit, tokens, _now, report) {
      if (report !== undefined) return addReport(hit, tokens, report)
      const instant = monotonic()
      for (const each of hit) {
        const counter = sharedOf(each, instant)
        counter.wantedAt = instant
        addTokens(counter, tokens, instant)
        counter.sender.schedule(counter, mayWait(each, counter) ? farIntervals : 1)
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
 * For how long what is known of a counter that is only read is good enough: for one interval when
 * its limit is near. Asking is most of what such a read costs, and while it is far others have half
 * the limit to spend before that matters.
 */
function patienceFor({ limit }: Counter, counter: SharedCounter, flushMs: number): number {
  if (limit === undefined || usedIn(counter) >= limit / 2) return flushMs
  return Math.max(flushMs, farMs)
}

/** Whether others decide alike for a while without what this process has added to a counter. */
function mayWait({ limit }: Counter, counter: SharedCounter): boolean {
  if (limit === undefined || !counter.known || usedIn(counter) >= limit / 2) return false
  return unansweredIn(counter) <= limit * untoldShare
}

/** Without a cause: it is told once, when Redis goes away, not for each request. */
function outOfReach(): ServiceError {
  return new ServiceError('counters_unavailable')
}
