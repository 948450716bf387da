/**
 * Sends what was added, batch after batch, exactly once: one batch is under way at a time, and is
 * repeated under the same number until Redis answers. Every batch is a refresh too. A batch is for
 * the store that it was made for: another one is first told what was known (restore.ts).
 */

import { randomUUID } from 'node:crypto'
import { createBacklog, type Holding } from './backlog.ts'
import { type Additions, type Batch, toAdditions } from './batch.ts'
import { keyPrefixOf, seenPrefixOf, storeKeyOf } from './keys.ts'
import { type Offer, offerOf, readState, toOffers } from './restore.ts'
import type { CounterAnswer, CounterCommands } from './scripts.ts'
import type { SharedCounter, SharedReport } from './shared-counter.ts'
import { takeAnswer } from './view.ts'

export interface SenderOptions {
  readonly commands: CounterCommands
  /** Hash tag of its keys. */
  readonly tag: string
  /** Name of the journal that tells of the same responses. */
  readonly journal: string
  readonly flushMs: number
  /** For how long a store that is new is told sums alone, and no reports. */
  readonly youngMs: number
  readonly monotonic: () => number
  /** All counters that it sends. */
  readonly counters: () => Iterable<SharedCounter>
  /** Told of each attempt, with the error of a failed one. */
  readonly onOutcome: (who: unknown, error?: unknown) => void
  /** Told when the store turns out to be another one than before. */
  readonly onOther: () => void
}

/** Sends what is added to its counters, exactly once. */
export interface Sender {
  /** What its sets of responses counted begin with. */
  readonly seenPrefix: string
  /** Has the counter flushed, and told anew, once so many intervals have passed since a batch. */
  schedule(counter: SharedCounter, intervals: number): void
  /** Has a response counted by the next batch, unless it is too old by then. */
  tell(report: SharedReport): void
  /** Asks for counters beside its batches. `epoch` is the store's that answers, empty without one. */
  ask(counters: readonly SharedCounter[]): Promise<{ answer: CounterAnswer; epoch: string }>
  /** Asks what store it is, unless Redis has answered lately. */
  beat(): void
  /** Whether the counter has to be kept for this sender's sake. */
  holds(counter: SharedCounter): boolean
  /** Settles once all that was scheduled and told until now is answered; rejects after a stop. */
  kept(): Promise<void>
  /**
   * Flushes what is left, for at most so long; sends nothing afterwards. Answers how many counters
   * it had to give up tokens of, reports aside: the journal has those.
   */
  stop(graceMs: number): Promise<number>
}

/** How long Redis remembers the last batch of a sender. */
const markMs = 7 * 86_400_000
/** For how long a sender relies on that. */
const markReliableMs = markMs / 2
const firstRetryMs = 50
const longestRetryMs = 1_000
const stoppingRetryMs = 25
/** Silence after which a beat asks. */
const silenceMs = 1_000

/** A sender of its own mark. */
export function createBatchSender(options: SenderOptions): Sender {
  const { commands, flushMs, monotonic, journal, onOutcome } = options
  const mark = `${keyPrefixOf(options.tag)}batch:${randomUUID()}`
  const storeKey = storeKeyOf(options.tag)
  const backlog = createBacklog()
  let number = 0
  let underWay: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushAt = Number.POSITIVE_INFINITY
  /** How many intervals the most urgent of those that wait may wait. */
  let patience = Number.POSITIVE_INFINITY
  let startedAt = Number.NEGATIVE_INFINITY
  let answeredAt = Number.NEGATIVE_INFINITY
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  let wake = (): void => {}
  /** Redis's clock less ours, as the last answer of this session told. */
  let clock = { session: -1, ahead: 0 }
  /** The store that answered last; empty where it has no epoch. */
  let epoch = ''
  /** When reports may be sent to it. */
  let matureAt = Number.POSITIVE_INFINITY
  /** The last number that it has acknowledged, and when. */
  let acknowledged = { number: 0, at: 0 }
  /** What it has to be told first; undefined where that has to be looked up. */
  let offers: Offer[] | undefined
  /** Tokens that may have got to a store before. */
  const doubts = new Map<SharedCounter, number>()
  const untils = new Map<string, number>()

  /** What the next batch may hold. */
  function holding(): Holding {
    return monotonic() >= matureAt ? 'all' : 'counters'
  }

  /**
   * The first batch after a pause goes at once, the others in intervals, unless there is enough for
   * a whole one.
   */
  function arm(intervals: number): void {
    patience = Math.min(patience, intervals)
    if (underWay !== undefined || state !== 'running') return
    const now = holding()
    let at = backlog.isFull(now) ? 0 : startedAt + patience * flushMs
    if (backlog.isEmpty(now) && epoch !== '') at = Math.max(at, matureAt)
    if (at >= flushAt) return
    flushAt = at
    clearTimeout(timer)
    const waitMs = at - monotonic()
    // A timer waits for a millisecond at least.
    if (waitMs > 0) timer = setTimeout(flush, waitMs)
    else setImmediate(flush)
  }

  function flush(): void {
    clearTimeout(timer)
    flushAt = Number.POSITIVE_INFINITY
    if (!backlog.isEmpty()) begin()
  }

  function begin(): void {
    if (underWay !== undefined || state === 'stopped') return
    patience = Number.POSITIVE_INFINITY
    underWay = sendBatch().finally(() => {
      underWay = undefined
      // What no batch had room for waits for one interval; what came since has said.
      if (!backlog.isEmpty()) arm(patience === Number.POSITIVE_INFINITY ? 1 : patience)
    })
  }

  /** The next batch, which is made anew when the store turns out to be another one. */
  async function sendBatch(): Promise<void> {
    let isDone = false
    while (!isDone) isDone = !(await repeat(restore)) || (await deliver())
  }

  /** Tries until it succeeds; false where it was stopped before. */
  async function repeat(attempt: () => Promise<void>, onFailure = () => {}): Promise<boolean> {
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(longestRetryMs, 2 * retryMs)) {
      startedAt = monotonic()
      try {
        await attempt()
        return true
      } catch (error) {
        onOutcome(sender, error)
        onFailure()
        if (state === 'stopped') return false
        backlog.leaveOld(monotonic())
        await pause(state === 'stopping' ? stoppingRetryMs : retryMs)
      }
    }
  }

  /** Whether the store has answered that it was sent for; it has to be made anew otherwise. */
  async function deliver(): Promise<boolean> {
    // Somebody else may have heard of another store since.
    if (offers?.length !== 0) return false
    const madeFor = epoch
    const batch = backlog.take(monotonic(), holding())
    number += 1
    const own = number
    let isAnswered = false
    let doubtful = false
    await repeat(
      async () => {
        if (epoch !== madeFor) return
        const additions = additionsOf(batch, own)
        const answer = await send(batch, additions)
        if (hear(answer) !== madeFor) return
        takeAnswers(
          batch.parts.map(({ counter }) => counter),
          answer,
        )
        if (additions !== undefined) acknowledged = { number: own, at: monotonic() }
        backlog.settle()
        isAnswered = true
      },
      () => {
        doubtful = true
      },
    )
    if (isAnswered || state === 'stopped') return true
    if (doubtful) noteDoubts(batch)
    backlog.unwind(batch, doubtful, monotonic())
    return false
  }

  function noteDoubts({ parts }: Batch): void {
    for (const { counter, tokens, endsAt } of parts) {
      if (tokens === 0 || monotonic() >= endsAt) continue
      doubts.set(counter, tokens + (doubts.get(counter) ?? 0))
    }
  }

  /** Redis's clock now; 0 where it is not known. */
  function redisTime(): number {
    return clock.session === commands.session ? Math.floor(monotonic() + clock.ahead) : 0
  }

  function additionsOf(batch: Batch, own: number): Additions | undefined {
    return toAdditions(batch, {
      number: own,
      acknowledged: leastMark(),
      markMs,
      sentAt: redisTime(),
      epoch,
      journal,
      now: monotonic(),
    })
  }

  function send(batch: Batch, additions: Additions | undefined): Promise<CounterAnswer> {
    if (additions !== undefined) {
      return commands.add([storeKey, mark, ...additions.keys], additions.args)
    }
    return readOf(batch.parts.map(({ counter }) => counter))
  }

  function readOf(counters: readonly SharedCounter[]): Promise<CounterAnswer> {
    return commands.read([storeKey, mark, ...counters.map(keyOf)], [leastMark(), epoch])
  }

  /** The number that Redis has been told of at least, as long as it is sure to remember. */
  function leastMark(): number {
    return monotonic() - acknowledged.at < markReliableMs ? acknowledged.number : 0
  }

  /** Has the store tell what it is, and tells it what it has lost. */
  async function restore(): Promise<void> {
    while (epoch === '' || offers === undefined || offers.length > 0) {
      if (epoch === '') {
        hear(await commands.restore([storeKey, mark], [0, markMs, 0, '', 0, '{}']))
      }
      offers ??= toOffers(options.counters(), doubts, epoch, monotonic()).map((counters) => {
        number += 1
        return { number, counters }
      })
      const [offer] = offers
      if (offer !== undefined) await tellOf(offer)
    }
  }

  async function tellOf(offer: Offer): Promise<void> {
    const [madeFor, now] = [epoch, monotonic()]
    const { youngMs } = options
    const known = JSON.stringify(Object.fromEntries(untils))
    const args = [offer.number, markMs, redisTime(), madeFor, youngMs, known]
    const answer = await commands.restore(
      [storeKey, mark, ...offer.counters.map(keyOf)],
      [...args, ...offer.counters.flatMap((counter) => offerOf(counter, doubts, madeFor, now))],
    )
    if (hear(answer) !== madeFor) return
    takeAnswers(offer.counters, answer)
    acknowledged = { number: offer.number, at: monotonic() }
    for (const counter of offer.counters) doubts.delete(counter)
    offers?.shift()
  }

  function hear(answer: CounterAnswer): string {
    const heard = readState(answer)
    const now = monotonic()
    answeredAt = now
    clock = { session: commands.session, ahead: answer[0] - now }
    for (const [name, until] of heard.untils) {
      if (until > (untils.get(name) ?? 0)) untils.set(name, until)
    }
    if ((heard.epoch ?? '') !== epoch) {
      if (epoch !== '') {
        options.onOther()
        setImmediate(begin)
      }
      epoch = heard.epoch ?? ''
      // By whichever clock is first: Redis's may have been set back.
      matureAt = Math.min(now, Number(epoch) / 1_000 - clock.ahead) + options.youngMs
      acknowledged = { number: 0, at: 0 }
      offers = undefined
    }
    return epoch
  }

  function takeAnswers(counters: readonly SharedCounter[], answer: CounterAnswer): void {
    checkForm(answer, counters)
    const now = monotonic()
    for (let i = 0; i < counters.length; i += 1) {
      const counter = counters[i] as SharedCounter
      const used = answer[2 * i + 2] as number
      const leftMs = answer[2 * i + 3] as number
      // All that it has sent, since no other batch of its is under way.
      takeAnswer(counter, { used, leftMs, acknowledged: counter.sending }, now)
      counter.toldIn = epoch
    }
    onOutcome(sender)
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const pausing = setTimeout(resolve, ms)
      pausing.unref()
      wake = () => {
        clearTimeout(pausing)
        resolve()
      }
    })
  }

  async function flushAll(): Promise<void> {
    while (state === 'stopping' && (!backlog.isEmpty(holding()) || underWay !== undefined)) {
      flush()
      await underWay
    }
  }

  const sender: Sender = {
    seenPrefix: seenPrefixOf(options.tag, journal),
    schedule(counter, intervals) {
      if (backlog.enter(counter) || intervals < patience) arm(intervals)
    },
    tell(report) {
      backlog.push(report)
      arm(1)
    },
    async ask(counters) {
      const answer = await readOf(counters)
      checkForm(answer, counters)
      return { answer, epoch: hear(answer) }
    },
    beat() {
      if (state === 'running' && monotonic() - answeredAt >= silenceMs) begin()
    },
    holds: (counter) => backlog.holds(counter) || doubts.has(counter),
    async kept() {
      const kept = backlog.kept()
      if (state === 'stopped') backlog.giveUp(stopped())
      return kept
    },
    async stop(graceMs) {
      if (state === 'running') state = 'stopping'
      wake()
      let over: NodeJS.Timeout | undefined
      await Promise.race([
        flushAll(),
        new Promise((resolve) => {
          over = setTimeout(resolve, graceMs)
        }),
      ])
      state = 'stopped'
      clearTimeout(over)
      clearTimeout(timer)
      wake()
      backlog.giveUp(stopped())
      return backlog.owed(monotonic(), doubts.keys())
    },
  }
  return sender
}

function keyOf({ keyPrefix, key }: SharedCounter): string {
  return keyPrefix + key
}

function checkForm(answer: CounterAnswer, counters: readonly unknown[]): void {
  if (answer.length !== 2 * counters.length + 2) throw new Error('Redis answered in another form')
}

function stopped(): Error {
  return new Error('The counters were stopped before Redis had all that was added.')
}
