/**
 * A sender's link to its store: the store's identity, what it has acknowledged, and what must be
 * restored to it first (restore.ts).
 */

import { randomUUID } from 'node:crypto'
import { resetsKeptMs } from '../../counters.ts'
import { type Batch, toAdditions } from './batch.ts'
import { keyPrefixOf, resetKeyOf, seenPrefixOf, storeKeyOf } from './keys.ts'
import {
  type Doubt,
  isRestorable,
  type Offer,
  offerOf,
  readState,
  type StoreState,
  toOffers,
} from './restore.ts'
import { type AddAnswer, type CounterAnswer, type CounterCommands, resetSlots } from './scripts.ts'
import type { SharedCounter } from './shared-counter.ts'
import { endWindow, takeAnswer } from './view.ts'

export interface StoreLinkOptions {
  readonly commands: CounterCommands
  /** Hash tag of its keys. */
  readonly tag: string
  /** Name of the journal that also contains the reports. */
  readonly journal: string
  /** How long a new store gets only sums and no reports. */
  readonly youngMs: number
  readonly monotonic: () => number
  /** All counters of the sender. */
  readonly counters: () => Iterable<SharedCounter>
  /** One of them, if it is known. */
  readonly find: (key: string) => SharedCounter | undefined
  /** Called for each acknowledged batch with its number of counters and duration (ms). */
  readonly onFlushed?: (counters: number, tookMs: number) => void
  /** Called when the store turns out to be another one than before. */
  readonly onOther: () => void
}

/** How long Redis remembers the last number of a sender. */
const markMs = 7 * 86_400_000
/** How long a sender relies on that. */
const markReliableMs = markMs / 2

/** Resets that a process remembers, more than the store tells. */
const maxResetsKnown = 10_000

/** A link with its own mark; calls of `restore` and `send` must not overlap. */
export function createStoreLink(options: StoreLinkOptions) {
  const { commands, journal, youngMs, monotonic } = options
  const mark = `${keyPrefixOf(options.tag)}batch:${randomUUID()}`
  const storeKey = storeKeyOf(options.tag)
  const seenPrefix = seenPrefixOf(options.tag, journal)
  let number = 0
  let epoch = ''
  /** The latest epoch received, at or after that of every known sum; empty if none. */
  let latest = ''
  let matureAt = Number.POSITIVE_INFINITY
  let answeredAt = Number.NEGATIVE_INFINITY
  /** Redis's clock minus ours, from the last response of this session. */
  let clock = { session: -1, ahead: 0 }
  /** The last number that the store has acknowledged, and when. */
  let acknowledged = { number: 0, at: 0 }
  /** What must be restored to it; undefined if that is not known yet. */
  let offers: Offer[] | undefined
  const doubts = new Map<SharedCounter, Doubt>()
  const untils = new Map<string, number>()
  /** As of when counters were reset (ms), by their keys. */
  const resets = new Map<string, number>()
  /** Those that this process has made and the store has not sent back yet. */
  const made = new Map<string, number>()
  /** Of the store; undefined before its first response. */
  let resetCount: number | undefined
  /** Every known sum is from after the resets up to this time (ms), or after those in `resets`. */
  let awareAt = 0

  /** Redis's clock now; 0 if unknown. */
  function redisTime(): number {
    return clock.session === commands.session ? Math.floor(monotonic() + clock.ahead) : 0
  }

  /** The highest number that the store is known to have, while it is sure to remember. */
  function minMark(): number {
    return monotonic() - acknowledged.at < markReliableMs ? acknowledged.number : 0
  }

  function read(counters: readonly SharedCounter[]): Promise<CounterAnswer> {
    return commands.read([storeKey, mark, ...counters.map(keyOf)], [minMark(), epoch])
  }

  /** Records the store that a response came from; returns its epoch. */
  function receive(answer: CounterAnswer): string {
    const state = readState(answer)
    const now = monotonic()
    answeredAt = now
    clock = { session: commands.session, ahead: answer[0] - now }
    for (const [name, until] of state.untils) {
      if (until > (untils.get(name) ?? 0)) untils.set(name, until)
    }
    receiveResets(state)
    // An earlier epoch than known is of an older copy, which needs a new one.
    const received = Number(state.epoch) < Number(latest) ? '' : state.epoch
    if (received === epoch) return epoch
    const before = epoch
    epoch = received
    if (epoch !== '') latest = epoch
    // By whichever clock is earlier, because Redis's may have been set back.
    matureAt = Math.min(now, Number(epoch) / 1_000 - clock.ahead) + youngMs
    acknowledged = { number: 0, at: 0 }
    offers = undefined
    if (before !== '') options.onOther()
    return epoch
  }

  /** Drops what is known of counters that were reset since the last response. */
  function receiveResets(state: StoreState): void {
    const isSame = state.epoch === epoch
    // A store that was lost meanwhile may have made as many.
    if (isSame && state.resetCount === resetCount) return
    const missed = state.resetCount - (isSame ? (resetCount ?? 0) : 0) > resetSlots
    if (missed && resetCount !== undefined) for (const each of options.counters()) endWindow(each)
    // A reset of the same millisecond may have followed.
    if (missed || resetCount === undefined) awareAt = Math.max(awareAt, redisTime() - 1)
    resetCount = state.resetCount
    for (const [key, at] of state.resets) {
      if (at >= (made.get(key) ?? Number.POSITIVE_INFINITY)) made.delete(key)
      if (at <= (resets.get(key) ?? Number.NEGATIVE_INFINITY)) continue
      remember(key, at)
      const counter = options.find(key)
      if (counter !== undefined) endWindow(counter)
    }
  }

  function remember(key: string, at: number): void {
    resets.delete(key)
    resets.set(key, at)
    for (const [oldest, resetAt] of resets) {
      if (resets.size <= maxResetsKnown) break
      resets.delete(oldest)
      awareAt = Math.max(awareAt, resetAt)
    }
  }

  /** What a store that has lost its data must know besides the sums. */
  function known(): string {
    const oldest = Math.max(awareAt, redisTime() - resetsKeptMs)
    const recent = [...resets, ...made].filter(([, at]) => at > oldest)
    return JSON.stringify({
      ...Object.fromEntries(untils),
      'reset:': Math.floor(oldest),
      ...Object.fromEntries(recent.map(([key, at]) => [`reset:${resetKeyOf(key)}`, at])),
    })
  }

  function takeAnswers(counters: readonly SharedCounter[], answer: CounterAnswer): void {
    checkForm(counters, answer)
    const now = monotonic()
    for (let i = 0; i < counters.length; i += 1) {
      const counter = counters[i] as SharedCounter
      const used = answer[2 * i + 2] as number
      const leftMs = answer[2 * i + 3] as number
      // All that was sent, because no other batch of it is in flight.
      takeAnswer(counter, { used, leftMs, acknowledged: counter.sending }, now)
      counter.sumEpoch = epoch
    }
  }

  function makeOffers(): Offer[] {
    const now = monotonic()
    for (const [counter, { endsAt }] of doubts) {
      if (!isRestorable(Math.min(endsAt, counter.endsAt), now)) doubts.delete(counter)
    }
    const lost = toOffers(options.counters(), doubts, epoch, now)
    // Resets are offered even without any sum.
    if (lost.length === 0 && resets.size + made.size > 0) lost.push([])
    return lost.map((counters) => {
      number += 1
      return { number, counters }
    })
  }

  async function sendOffer({ number: own, counters }: Offer): Promise<void> {
    const [madeFor, now] = [epoch, monotonic()]
    const answer = await commands.restore(
      [storeKey, mark, ...counters.map(keyOf)],
      [
        ...[own, markMs, redisTime(), madeFor, youngMs, known()],
        ...counters.flatMap((counter) => offerOf(counter, doubts, madeFor, now)),
      ],
    )
    if (receive(answer) !== madeFor) return
    takeAnswers(counters, answer)
    acknowledged = { number: own, at: monotonic() }
    for (const counter of counters) doubts.delete(counter)
    for (const [key, at] of made) remember(key, at)
    made.clear()
    offers?.shift()
  }

  return {
    /** Epoch of the store that responded last; empty if it has none yet. */
    get epoch(): string {
      return epoch
    },
    /** When it starts to accept reports. */
    get matureAt(): number {
      return matureAt
    },
    get answeredAt(): number {
      return answeredAt
    },
    /** Whether its lost data, if any, have been restored. */
    get isRestored(): boolean {
      return offers?.length === 0
    },
    /** Tokens that an earlier store may or may not have counted. */
    doubts,
    /** The number of a batch, higher than all before. */
    nextNumber(): number {
      number += 1
      return number
    },
    /** This process has reset the counter as of `at` (ms). The store may be lost before it tells that. */
    noteReset(key: string, at: number): void {
      made.set(key, at)
    },
    /** Identifies the store, and restores what it has lost. Repeat it if it rejects. */
    async restore(): Promise<void> {
      while (epoch === '' || offers?.length !== 0) {
        // An offer without counters gives a store without an epoch, or with an earlier one, a new one.
        if (epoch === '') {
          receive(await commands.restore([storeKey, mark], [0, markMs, 0, latest, youngMs, '{}']))
        }
        offers ??= makeOffers()
        const [offer] = offers
        if (offer !== undefined) await sendOffer(offer)
      }
    },
    /**
     * Sends a batch and applies the response. Resolves with the epoch of the store that responded.
     */
    async send(batch: Batch, own: number): Promise<string> {
      const madeFor = epoch
      const attempt = { number: own, acknowledged: minMark(), markMs, sentAt: redisTime() }
      const additions = toAdditions(batch, {
        ...{ ...attempt, epoch, journal, seenPrefix },
        now: monotonic(),
      })
      const counters = batch.parts.map(({ counter }) => counter)
      const begin = monotonic()
      const answered = await (additions === undefined
        ? read(counters)
        : commands.add([storeKey, mark, ...additions.keys], additions.args))
      if (additions !== undefined) options.onFlushed?.(counters.length, monotonic() - begin)
      const { answer, counted } = splitAnswer(answered)
      if (receive(answer) !== madeFor) return epoch
      takeAnswers(counters, answer)
      for (const place of counted) batch.reports[place]?.onCounted?.()
      if (additions !== undefined) acknowledged = { number: own, at: monotonic() }
      return epoch
    },
    /** Only reads. `epoch` is that of the store that responds. */
    async ask(
      counters: readonly SharedCounter[],
    ): Promise<{ answer: CounterAnswer; epoch: string }> {
      const answer = await read(counters)
      checkForm(counters, answer)
      return { answer, epoch: receive(answer) }
    },
    /** Its tokens may have been added, and will not be sent to this store again. */
    doubt({ parts }: Batch): void {
      for (const { counter, tokens, endsAt } of parts) {
        if (tokens === 0 || monotonic() >= endsAt) continue
        doubts.set(counter, { tokens: tokens + (doubts.get(counter)?.tokens ?? 0), endsAt })
      }
    },
  }
}

function keyOf({ keyPrefix, key }: SharedCounter): string {
  return keyPrefix + key
}

/** The sums, and the places of the reports that were counted. */
function splitAnswer(answer: AddAnswer): { answer: CounterAnswer; counted: readonly number[] } {
  const last = answer.at(-1)
  if (typeof last !== 'string') return { answer: answer as CounterAnswer, counted: [] }
  const counted = last === '' ? [] : last.split(',').map(Number)
  return { answer: answer.slice(0, -1) as unknown as CounterAnswer, counted }
}

function checkForm(counters: readonly unknown[], answer: CounterAnswer): void {
  if (answer.length !== 2 * counters.length + 2)
    throw new Error('the response of Redis has an unexpected form')
}
