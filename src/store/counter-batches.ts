/**
 * Sends what was added, batch after batch, exactly once: one batch is under way at a time, and is
 * repeated under the same number until Redis answers. Every batch is a refresh too.
 */

import { randomUUID } from 'node:crypto'
import { keyPrefixOf } from './counter-keys.ts'
import type { CounterCommands } from './counter-scripts.ts'
import { type CounterView, takeAnswer, takePending } from './counter-view.ts'

/** A counter as the store keeps it. */
export interface SharedCounter extends CounterView {
  readonly key: string
  /** What `key` begins with in Redis. */
  readonly keyPrefix: string
  readonly sender: Sender
  /** Session of the connection that Redis last told in. */
  toldIn: number
  /** When a request last needed it. */
  wantedAt: number
}

export interface Sender {
  /** Has the counter flushed, and told anew, by the next batch. */
  schedule(counter: SharedCounter): void
  /** Whether the counter has to be kept for this sender's sake. */
  holds(counter: SharedCounter): boolean
  /** Flushes what is left, for at most so long; sends nothing afterwards. */
  stop(graceMs: number): Promise<void>
}

export interface SenderOptions {
  readonly commands: CounterCommands
  /** Hash tag of the sender's mark. */
  readonly tag: string
  readonly flushMs: number
  readonly monotonic: () => number
  /** Told of each attempt, with the error of a failed one. */
  readonly onOutcome: (who: unknown, error?: unknown) => void
}

interface Part {
  readonly counter: SharedCounter
  readonly tokens: number
  /** End of the window that the tokens belong to. */
  readonly endsAt: number
}

/** Counters in one batch at most: a script blocks Redis while it runs. */
const batchSize = 512
/** How long Redis remembers the last batch of a sender. */
const markMs = 7 * 86_400_000
const firstRetryMs = 50
const longestRetryMs = 1_000
const stoppingRetryMs = 25
/** Below this what is left of a lost window is not worth restoring, and may be an error of timing. */
const leastRestoredMs = 2_000

/** A sender of its own mark. */
export function createBatchSender(options: SenderOptions): Sender {
  const { commands, flushMs, monotonic, onOutcome } = options
  const mark = `${keyPrefixOf(options.tag)}batch:${randomUUID()}`
  const due = new Set<SharedCounter>()
  let number = 0
  let underWay: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let flushAt = Number.POSITIVE_INFINITY
  let startedAt = Number.NEGATIVE_INFINITY
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  let wake = (): void => {}
  /** Redis's clock less ours, as the last answer of this session told. */
  let clock = { session: -1, ahead: 0 }

  /**
   * The first batch after a pause goes at once, the others in intervals, unless there is enough for
   * a whole one. With nothing to add it is put off for two: waking up is most of what one costs.
   */
  function arm(intervals: number): void {
    if (underWay !== undefined || state !== 'running') return
    const at = due.size >= batchSize ? 0 : startedAt + intervals * flushMs
    if (at >= flushAt) return
    flushAt = at
    clearTimeout(timer)
    timer = setTimeout(flush, Math.max(0, at - monotonic()))
  }

  function flush(): void {
    clearTimeout(timer)
    flushAt = Number.POSITIVE_INFINITY
    if (underWay !== undefined || due.size === 0 || state === 'stopped') return
    underWay = sendBatch().finally(() => {
      underWay = undefined
      if (due.size > 0) arm(1)
    })
  }

  function takeParts(): readonly Part[] {
    const now = monotonic()
    const parts: Part[] = []
    for (const counter of due) {
      if (parts.length === batchSize) break
      due.delete(counter)
      parts.push({ counter, tokens: takePending(counter, now), endsAt: counter.endsAt })
    }
    return parts
  }

  async function sendBatch(): Promise<void> {
    const parts = takeParts()
    const keys = parts.map(({ counter }) => counter.keyPrefix + counter.key)
    number += 1
    for (let retryMs = firstRetryMs; ; retryMs = Math.min(longestRetryMs, 2 * retryMs)) {
      startedAt = monotonic()
      try {
        takeAnswers(parts, await send(keys, parts))
        onOutcome(sender)
        return
      } catch (error) {
        onOutcome(sender, error)
        if (state === 'stopped') return
        await pause(state === 'stopping' ? stoppingRetryMs : retryMs)
      }
    }
  }

  /** Made anew for each attempt, since meanwhile windows end and Redis may have lost others. */
  function send(keys: readonly string[], parts: readonly Part[]): Promise<readonly number[]> {
    const now = monotonic()
    if (!parts.some((part) => openingOf(part, now) > 0)) return commands.read(keys)
    const sentAt = clock.session === commands.session ? Math.floor(now + clock.ahead) : 0
    const args: (string | number)[] = [number, markMs, sentAt]
    for (const part of parts) {
      const leftMs = Math.max(0, Math.ceil(part.endsAt - now))
      args.push(leftMs > 0 ? part.tokens : 0, leftMs, openingOf(part, now))
    }
    return commands.add([mark, ...keys], args)
  }

  /** What a window that this part opens begins with; nothing once its own has ended. */
  function openingOf({ counter, tokens, endsAt }: Part, now: number): number {
    return now < endsAt ? tokens + lostTokens(counter, endsAt - now) : 0
  }

  /**
   * What Redis told of the window on an earlier connection: a Redis that came back empty has to
   * begin with that. On the same connection a window that is gone was ended by somebody.
   */
  function lostTokens({ toldIn, used }: SharedCounter, leftMs: number): number {
    return toldIn !== commands.session && leftMs > leastRestoredMs ? used : 0
  }

  function takeAnswers(parts: readonly Part[], answer: readonly number[]): void {
    if (answer.length !== 2 * parts.length + 1) throw new Error('Redis answered in another form')
    const now = monotonic()
    clock = { session: commands.session, ahead: (answer[0] as number) - now }
    for (let i = 0; i < parts.length; i += 1) {
      const { counter, tokens } = parts[i] as Part
      const used = answer[2 * i + 1] as number
      const leftMs = answer[2 * i + 2] as number
      takeAnswer(counter, { used, leftMs, acknowledged: tokens }, now)
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
    while (state === 'stopping' && (due.size > 0 || underWay !== undefined)) {
      flush()
      await underWay
    }
  }

  const sender: Sender = {
    schedule(counter) {
      due.add(counter)
      arm(counter.pending > 0 ? 1 : 2)
    },
    holds: (counter) => counter.pending + counter.sending > 0 || due.has(counter),
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
    },
  }
  return sender
}
