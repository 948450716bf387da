/**
 * Counters that several processes share through Redis. The request path never waits for it once a
 * counter is known: a local view answers at once, additions are applied to it at once and flushed
 * in batches, and each flush brings the new sums back. While Redis is away the view goes on, and
 * what was added is kept (a sum for each counter) until it is back.
 *
 * Exactly once: a sender has one batch under way, and repeats it under the same number until it is
 * answered; Redis adds a number once. (Its asynchronous failover can lose what it acknowledged.)
 */

import type { Counter, CounterState } from '../core/counter.ts'
import { ServiceError } from '../core/errors.ts'
import { createBatchSender, type Sender, type SharedCounter } from './counter-batches.ts'
import { keyPrefixOf, tagOf } from './counter-keys.ts'
import type { CounterCommands } from './counter-scripts.ts'
import { addTokens, createView, isOpen, takeAnswer, usedIn } from './counter-view.ts'
import type { CounterStore } from './counters.ts'

export interface RedisCountersOptions {
  readonly commands: CounterCommands
  /** In a Cluster a script may touch the keys of one hash tag only. */
  readonly cluster: boolean
  /** Milliseconds between two flushes. */
  readonly flushMs: number
  /** What to think of a counter never seen while Redis is away. */
  readonly onLoss: 'allow' | 'deny'
  /** Told once for each change. */
  readonly onAway: (away: boolean, cause: unknown) => void
  /** Milliseconds of a clock that never steps; `performance.now` unless told. */
  readonly monotonic?: () => number
}

export interface RedisCounters extends CounterStore {
  /** Whether Redis fails to answer, or to write. */
  readonly away: boolean
  /** Counters in the local view. */
  readonly size: number
  /** Counters with tokens that Redis has not acknowledged yet; looks at each. */
  readonly unflushed: number
  /** Flushes what is left, for at most so long; answers how many counters had to be given up. */
  stop(graceMs: number): Promise<number>
}

/** Counters in one read at most: a script blocks Redis while it runs. */
const readSize = 512
/** A counter that nobody has used for so long is forgotten, and asked for again when it is. */
const closedIdleMs = 60_000
const openIdleMs = 600_000
const heartbeatMs = 1_000

/** A CounterStore over Redis. */
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { commands, cluster, flushMs, onLoss } = options
  const monotonic = options.monotonic ?? (() => performance.now())
  const counters = new Map<string, SharedCounter>()
  const senders = new Map<string, Sender>()
  const failing = new Set<unknown>()
  let unknown = new Set<SharedCounter>()
  let fetching: Promise<void> | undefined
  let sweep = counters.values()
  let answeredAt = Number.NEGATIVE_INFINITY
  const heartbeat = setInterval(beat, heartbeatMs)
  heartbeat.unref()

  function sharedOf({ key, windowMs }: Counter, now: number): SharedCounter {
    const existing = counters.get(key)
    if (existing !== undefined) return existing
    forgetSome(now)
    const tag = tagOf(key)
    const counter = {
      ...createView(windowMs),
      key,
      keyPrefix: keyPrefixOf(tag),
      sender: senderOf(cluster ? tag : 'all'),
      toldIn: 0,
      wantedAt: now,
    }
    counters.set(key, counter)
    return counter
  }

  function senderOf(tag: string): Sender {
    let sender = senders.get(tag)
    if (sender === undefined) {
      sender = createBatchSender({ commands, tag, flushMs, monotonic, onOutcome })
      senders.set(tag, sender)
    }
    return sender
  }

  /** Two old ones are looked at for each new one, so that no request pays for a sweep. */
  function forgetSome(now: number): void {
    for (let i = 0; i < 2; i += 1) {
      const { value: counter, done } = sweep.next()
      if (done) {
        sweep = counters.values()
        return
      }
      const idleMs = now - counter.wantedAt
      if (idleMs < closedIdleMs || counter.sender.holds(counter)) continue
      // An open window is only forgotten while it can be asked for again.
      if (!isOpen(counter, now) || (idleMs >= openIdleMs && failing.size === 0)) {
        counters.delete(counter.key)
      }
    }
  }

  /** `who` could reach Redis, or could not. */
  function onOutcome(who: unknown, error?: unknown): void {
    const wasAway = failing.size > 0
    if (error === undefined) {
      answeredAt = monotonic()
      failing.delete(who)
      failing.delete(heartbeat)
    } else {
      failing.add(who)
    }
    const isAway = failing.size > 0
    if (isAway !== wasAway) options.onAway(isAway, error)
  }

  /** With nobody asking for anything, it still has to be told when Redis goes away. */
  function beat(): void {
    if (monotonic() - answeredAt < heartbeatMs) return
    commands.ping().then(
      () => onOutcome(heartbeat),
      (error: unknown) => onOutcome(heartbeat, error),
    )
  }

  /** Asks for all counters not seen yet in one go, however many requests wait. Never rejects. */
  function fetchUnknown(): Promise<void> {
    fetching ??= new Promise((resolve) => {
      setImmediate(() => {
        const asked = unknown
        unknown = new Set()
        fetching = undefined
        resolve(fetchAll(asked))
      })
    })
    return fetching
  }

  async function fetchAll(asked: ReadonlySet<SharedCounter>): Promise<void> {
    const reads: Promise<void>[] = []
    for (const [sender, group] of Map.groupBy(asked, (counter) => counter.sender)) {
      for (let i = 0; i < group.length; i += readSize) {
        reads.push(fetch(sender, group.slice(i, i + readSize)))
      }
    }
    await Promise.all(reads)
  }

  async function fetch(sender: Sender, group: readonly SharedCounter[]): Promise<void> {
    try {
      const answer = await commands.read(group.map(({ keyPrefix, key }) => keyPrefix + key))
      if (answer.length !== 2 * group.length + 1) throw new Error('Redis answered in another form')
      const now = monotonic()
      group.forEach((counter, i) => {
        // Of a batch that is repeated nobody knows whether it is in this answer already.
        if (counter.known || (counter.sending > 0 && failing.has(sender))) return
        const [used, leftMs] = [answer[2 * i + 1] as number, answer[2 * i + 2] as number]
        takeAnswer(counter, { used, leftMs, acknowledged: 0 }, now)
        counter.toldIn = commands.session
      })
    } catch (error) {
      onOutcome(sender, error)
      // The sender goes on asking, and so finds out when Redis is back.
      for (const counter of group) sender.schedule(counter)
    }
  }

  function toState(counter: SharedCounter, instant: number, now: number): CounterState | undefined {
    if (!isOpen(counter, instant)) return undefined
    return { used: usedIn(counter), resetsAt: Math.ceil(now + counter.endsAt - instant) }
  }

  function isAway({ sender }: SharedCounter): boolean {
    return failing.has(sender) || failing.has(heartbeat)
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
    for (const counter of reachable) unknown.add(counter)
    return fetchUnknown().then(answer)
  }

  function countUnflushed(): number {
    const now = monotonic()
    let count = 0
    for (const counter of counters.values()) {
      if (isOpen(counter, now) && counter.pending + counter.sending > 0) count += 1
    }
    return count
  }

  return {
    get away() {
      return failing.size > 0
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
        } else if (instant - counter.toldAt >= flushMs) {
          counter.sender.schedule(counter)
        }
        states.push(toState(counter, instant, now))
      }
      return missing === undefined ? states : readUnknown(asked, missing, now)
    },
    add(hit, tokens) {
      const instant = monotonic()
      for (const each of hit) {
        const counter = sharedOf(each, instant)
        counter.wantedAt = instant
        addTokens(counter, tokens, instant)
        counter.sender.schedule(counter)
      }
    },
    async stop(graceMs) {
      clearInterval(heartbeat)
      await Promise.all([...senders.values()].map((sender) => sender.stop(graceMs)))
      return countUnflushed()
    },
  }
}

/** Without a cause: it is told once, when Redis goes away, not for each request. */
function outOfReach(): ServiceError {
  return new ServiceError('store_unavailable', {
    message: 'The token counters are out of reach; try again in a few seconds.',
  })
}
