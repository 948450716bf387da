/**
 * Sends what was added, batch after batch, exactly once: one batch is under way at a time, and is
 * repeated under the same number until Redis answers. Every batch is a refresh too.
 */

import { randomUUID } from 'node:crypto'
import { createBacklog } from './backlog.ts'
import { type Batch, type Part, toAdditions } from './batch.ts'
import { keyPrefixOf, seenPrefixOf } from './keys.ts'
import type { CounterCommands } from './scripts.ts'
import type { Sender } from './shared-counter.ts'
import { takeAnswer } from './view.ts'

export interface SenderOptions {
  readonly commands: CounterCommands
  /** Hash tag of its keys. */
  readonly tag: string
  /** Name of the journal that tells of the same responses. */
  readonly journal: string
  readonly flushMs: number
  readonly monotonic: () => number
  /** Told of each attempt, with the error of a failed one. */
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

/** How long Redis remembers the last batch of a sender. */
const markMs = 7 * 86_400_000
const firstRetryMs = 50
const longestRetryMs = 1_000
const stoppingRetryMs = 25

/** A sender of its own mark. */
export function createBatchSender(options: SenderOptions): Sender {
  const { commands, flushMs, monotonic, onOutcome } = options
  const mark = `${keyPrefixOf(options.tag)}batch:${randomUUID()}`
  const backlog = createBacklog()
  let number = 0
  let underWay: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushAt = Number.POSITIVE_INFINITY
  /** How many intervals the most urgent of those that wait may wait. */
  let patience = Number.POSITIVE_INFINITY
  let startedAt = Number.NEGATIVE_INFINITY
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  let wake = (): void => {}
  /** Redis's clock less ours, as the last answer of this session told. */
  let clock = { session: -1, ahead: 0 }

  /**
   * The first batch after a pause goes at once, the others in intervals, unless there is enough for
   * a whole one.
   */
  function arm(intervals: number): void {
    patience = Math.min(patience, intervals)
    if (underWay !== undefined || state !== 'running') return
    const at = backlog.isFull ? 0 : startedAt + patience * flushMs
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
    if (underWay !== undefined || backlog.isEmpty || state === 'stopped') return
    patience = Number.POSITIVE_INFINITY
    underWay = sendBatch().finally(() => {
      underWay = undefined
      // What no batch had room for waits for one interval; what came since has said.
      if (!backlog.isEmpty) arm(patience === Number.POSITIVE_INFINITY ? 1 : patience)
    })
  }

  async function sendBatch(): Promise<void> {
    const batch = backlog.take(monotonic())
    number += 1
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(longestRetryMs, 2 * retryMs)) {
      startedAt = monotonic()
      try {
        takeAnswers(batch.parts, await send(batch))
        backlog.settle()
        onOutcome(sender)
        return
      } catch (error) {
        onOutcome(sender, error)
        if (state === 'stopped') return
        backlog.leaveOld(monotonic())
        await pause(state === 'stopping' ? stoppingRetryMs : retryMs)
      }
    }
  }

  function send(batch: Batch): Promise<readonly number[]> {
    const { session } = commands
    const now = monotonic()
    const sentAt = clock.session === session ? Math.floor(now + clock.ahead) : 0
    const additions = toAdditions(batch, { number, markMs, sentAt, session, now })
    if (additions !== undefined) return commands.add([mark, ...additions.keys], additions.args)
    return commands.read(batch.parts.map(({ counter }) => counter.keyPrefix + counter.key))
  }

  function takeAnswers(parts: readonly Part[], answer: readonly number[]): void {
    if (answer.length !== 2 * parts.length + 1) throw new Error('Redis answered in another form')
    const now = monotonic()
    clock = { session: commands.session, ahead: (answer[0] as number) - now }
    for (let i = 0; i < parts.length; i += 1) {
      const { counter } = parts[i] as Part
      const used = answer[2 * i + 1] as number
      const leftMs = answer[2 * i + 2] as number
      // All that it has sent, since no other batch of its is under way.
      takeAnswer(counter, { used, leftMs, acknowledged: counter.sending }, now)
      counter.toldIn = commands.session
    }
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
    while (state === 'stopping' && (!backlog.isEmpty || underWay !== undefined)) {
      flush()
      await underWay
    }
  }

  const sender: Sender = {
    seenPrefix: seenPrefixOf(options.tag, options.journal),
    schedule(counter, intervals) {
      if (backlog.enter(counter) || intervals < patience) arm(intervals)
    },
    tell(report) {
      backlog.push(report)
      arm(1)
    },
    holds: backlog.holds,
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
      return backlog.owed(monotonic())
    },
  }
  return sender
}

function stopped(): Error {
  return new Error('The counters were stopped before Redis had all that was added.')
}
