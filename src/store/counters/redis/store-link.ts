/**
 * A sender's way to its store: which one it is, what that has acknowledged, and what it has to be
 * told before anything else (restore.ts).
 */

import { randomUUID } from 'node:crypto'
import { type Batch, toAdditions } from './batch.ts'
import { keyPrefixOf, storeKeyOf } from './keys.ts'
import { type Offer, offerOf, readState, toOffers } from './restore.ts'
import type { AddAnswer, CounterAnswer, CounterCommands } from './scripts.ts'
import type { SharedCounter } from './shared-counter.ts'
import { takeAnswer } from './view.ts'

export interface StoreLinkOptions {
  readonly commands: CounterCommands
  /** Hash tag of its keys. */
  readonly tag: string
  /** Name of the journal that tells of the reports. */
  readonly journal: string
  /** For how long a store that is new is told sums alone, and no reports. */
  readonly youngMs: number
  readonly monotonic: () => number
  /** All counters of the sender. */
  readonly counters: () => Iterable<SharedCounter>
  /** Told of each batch that was answered, how many counters it had and how long it took (ms). */
  readonly onFlushed?: (counters: number, tookMs: number) => void
  /** Told when the store turns out to be another one than before. */
  readonly onOther: () => void
}

/** How long Redis remembers the last number of a sender. */
const markMs = 7 * 86_400_000
/** For how long a sender relies on that. */
const markReliableMs = markMs / 2

/** A link of its own mark; at most one `restore` or `send` at a time. */
export function createStoreLink(options: StoreLinkOptions) {
  const { commands, journal, youngMs, monotonic } = options
  const mark = `${keyPrefixOf(options.tag)}batch:${randomUUID()}`
  const storeKey = storeKeyOf(options.tag)
  let number = 0
  let epoch = ''
  let matureAt = Number.POSITIVE_INFINITY
  let answeredAt = Number.NEGATIVE_INFINITY
  /** Redis's clock less ours, as the last answer of this session told. */
  let clock = { session: -1, ahead: 0 }
  /** The last number that the store has acknowledged, and when. */
  let acknowledged = { number: 0, at: 0 }
  /** What it has to be told; undefined where that has to be looked up. */
  let offers: Offer[] | undefined
  const doubts = new Map<SharedCounter, number>()
  const untils = new Map<string, number>()

  /** Redis's clock now; 0 where it is not known. */
  function redisTime(): number {
    return clock.session === commands.session ? Math.floor(monotonic() + clock.ahead) : 0
  }

  /** The number that the store has been told of at least, as long as it is sure to remember. */
  function leastMark(): number {
    return monotonic() - acknowledged.at < markReliableMs ? acknowledged.number : 0
  }

  function read(counters: readonly SharedCounter[]): Promise<CounterAnswer> {
    return commands.read([storeKey, mark, ...counters.map(keyOf)], [leastMark(), epoch])
  }

  /** Takes note of the store that an answer is from; its epoch. */
  function hear(answer: CounterAnswer): string {
    const heard = readState(answer)
    const now = monotonic()
    answeredAt = now
    clock = { session: commands.session, ahead: answer[0] - now }
    for (const [name, until] of heard.untils) {
      if (until > (untils.get(name) ?? 0)) untils.set(name, until)
    }
    if (heard.epoch === epoch) return epoch
    const before = epoch
    epoch = heard.epoch
    // By whichever clock is first: Redis's may have been set back.
    matureAt = Math.min(now, Number(epoch) / 1_000 - clock.ahead) + youngMs
    acknowledged = { number: 0, at: 0 }
    offers = undefined
    if (before !== '') options.onOther()
    return epoch
  }

  function takeAnswers(counters: readonly SharedCounter[], answer: CounterAnswer): void {
    checkForm(counters, answer)
    const now = monotonic()
    for (let i = 0; i < counters.length; i += 1) {
      const counter = counters[i] as SharedCounter
      const used = answer[2 * i + 2] as number
      const leftMs = answer[2 * i + 3] as number
      // All that it has sent, since no other batch of its is under way.
      takeAnswer(counter, { used, leftMs, acknowledged: counter.sending }, now)
      counter.toldIn = epoch
    }
  }

  async function tellOf({ number: own, counters }: Offer): Promise<void> {
    const [madeFor, now] = [epoch, monotonic()]
    const known = JSON.stringify(Object.fromEntries(untils))
    const answer = await commands.restore(
      [storeKey, mark, ...counters.map(keyOf)],
      [
        ...[own, markMs, redisTime(), madeFor, youngMs, known],
        ...counters.flatMap((counter) => offerOf(counter, doubts, madeFor, now)),
      ],
    )
    if (hear(answer) !== madeFor) return
    takeAnswers(counters, answer)
    acknowledged = { number: own, at: monotonic() }
    for (const counter of counters) doubts.delete(counter)
    offers?.shift()
  }

  return {
    /** Of the store that answered last; empty where it has none yet. */
    get epoch(): string {
      return epoch
    },
    /** From when on it takes reports. */
    get matureAt(): number {
      return matureAt
    },
    get answeredAt(): number {
      return answeredAt
    },
    /** Whether it has been told what it has lost, if anything. */
    get isRestored(): boolean {
      return offers?.length === 0
    },
    /** Tokens of which nobody knows whether a store before had them. */
    doubts,
    /** The number of a batch, above all before it. */
    nextNumber(): number {
      number += 1
      return number
    },
    /** Has the store say what it is, and tells it what it has lost. To be repeated when it rejects. */
    async restore(): Promise<void> {
      while (epoch === '' || offers?.length !== 0) {
        // Whoever asks for nothing gives a store without an epoch one.
        if (epoch === '') {
          hear(await commands.restore([storeKey, mark], [0, markMs, 0, '', youngMs, '{}']))
        }
        offers ??= toOffers(options.counters(), doubts, epoch, monotonic()).map((counters) => {
          number += 1
          return { number, counters }
        })
        const [offer] = offers
        if (offer !== undefined) await tellOf(offer)
      }
    },
    /** Sends a batch and takes the answer. Settles with the epoch of the store that answered. */
    async send(batch: Batch, own: number): Promise<string> {
      const madeFor = epoch
      const attempt = { number: own, acknowledged: leastMark(), markMs, sentAt: redisTime() }
      const additions = toAdditions(batch, { ...attempt, epoch, journal, now: monotonic() })
      const counters = batch.parts.map(({ counter }) => counter)
      const begin = monotonic()
      const answered = await (additions === undefined
        ? read(counters)
        : commands.add([storeKey, mark, ...additions.keys], additions.args))
      if (additions !== undefined) options.onFlushed?.(counters.length, monotonic() - begin)
      const { answer, counted } = splitAnswer(answered)
      if (hear(answer) !== madeFor) return epoch
      takeAnswers(counters, answer)
      for (const place of counted) batch.reports[place]?.onCounted?.()
      if (additions !== undefined) acknowledged = { number: own, at: monotonic() }
      return epoch
    },
    /** Only asks. `epoch` is that of the store that answers. */
    async ask(
      counters: readonly SharedCounter[],
    ): Promise<{ answer: CounterAnswer; epoch: string }> {
      const answer = await read(counters)
      checkForm(counters, answer)
      return { answer, epoch: hear(answer) }
    },
    /** Its tokens may have got there, and will not be sent to this store again. */
    doubt({ parts }: Batch): void {
      for (const { counter, tokens, endsAt } of parts) {
        if (tokens === 0 || monotonic() >= endsAt) continue
        doubts.set(counter, tokens + (doubts.get(counter) ?? 0))
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
  if (answer.length !== 2 * counters.length + 2) throw new Error('Redis answered in another form')
}
