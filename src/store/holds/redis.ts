/** Holds that several processes share through Redis: one call for each request. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Counter } from '../../core/decision/counter.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { keyPrefixOf, tagOf } from '../counters/redis/keys.ts'
import { memberOf } from '../counters/reports.ts'
import type { CounterStore } from '../counters.ts'
import { type AskedHold, type HoldAnswer, type HoldStore, leaseMs } from '../holds.ts'
import { createMemoryHolds } from './memory.ts'
import { withTaken } from './memory-taken.ts'
import type { HeldAnswer, HoldCommands } from './scripts.ts'

/** Between two attempts to release what Redis has not acknowledged. */
const retryMs = 500
/** The most releases that wait for Redis; beyond it the oldest are left to their leases. */
const maxWaiting = 20_000

export interface RedisHolds extends HoldStore {
  /** Releases that Redis has not acknowledged. */
  readonly waiting: number
  /** Releases the rest, for at most this long (ms); what remains is left to the leases. */
  stop(graceMs: number): Promise<void>
}

interface Release {
  readonly keys: readonly string[]
  readonly members: string[]
}

export interface RedisHoldsOptions {
  /** Resolves once everything counted until now is in Redis: a hold ends after that. */
  readonly kept?: () => Promise<void>
  /** In milliseconds. */
  readonly lease?: number
  /** What this process knows to be used, beside which it holds alone. */
  readonly counters?: Pick<CounterStore, 'read' | 'add'>
}

export function createRedisHolds(
  commands: HoldCommands,
  options: RedisHoldsOptions = {},
): RedisHolds {
  const { kept = async () => {}, lease = leaseMs } = options
  /** By the key of the sums; those of one call at most. */
  let due = new Map<string, Release>()
  let waiting = 0
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const aloneCounters = createMemoryCounters()
  const alone = withTaken(
    createMemoryHolds(atOnce(options.counters ?? aloneCounters)),
    aloneCounters,
  )

  function queue(counters: readonly Counter[], member: string): void {
    const keys = keysOf(counters)
    const [name] = keys
    if (name === undefined) return
    if (waiting >= maxWaiting) {
      const [oldest] = due
      if (oldest !== undefined) {
        due.delete(oldest[0])
        waiting -= oldest[1].members.length
      }
    }
    const found = due.get(name)
    if (found === undefined) due.set(name, { keys, members: [member] })
    else found.members.push(member)
    waiting += 1
    schedule(0)
  }

  function schedule(delayMs: number): void {
    if (isStopped) return
    timer ??= setTimeout(() => void send(), delayMs)
    timer.unref()
  }

  async function send(): Promise<void> {
    const batch = [...due.values()]
    due = new Map()
    let isFailing = false
    await kept().catch(() => {})
    await Promise.all(
      batch.map(async (release) => {
        try {
          await commands.release(release.keys, release.members)
          waiting -= release.members.length
        } catch {
          // Said by the counters of the same Redis.
          isFailing = true
          const [name] = release.keys as readonly [string]
          const later = due.get(name)
          if (later === undefined) due.set(name, release)
          else later.members.push(...release.members)
        }
      }),
    )
    timer = undefined
    if (due.size > 0) schedule(isFailing ? retryMs : 0)
  }

  return {
    get waiting() {
      return waiting
    },
    async hold(asked, now) {
      const member = asked.id === undefined ? '' : memberOf(asked.id)
      try {
        return toAnswer(
          asked,
          now,
          await commands.hold(keysWith(asked), argsOf(asked, member, lease)),
        )
      } catch (error) {
        // The answer may be lost rather than the call.
        if (member !== '') queue(allOf(asked), asked.asker ? `${member} ${asked.asker}` : member)
        throw error
      }
    },
    holdAlone: alone.hold,
    release(counters, id) {
      alone.release(counters, id)
      queue(counters, memberOf(id))
    },
    undo(counters, id, asker) {
      alone.undo(counters, id, asker)
      queue(counters, `${memberOf(id)} ${asker}`)
    },
    renew(counters, id, output, now) {
      alone.renew(counters, id, output, now)
      const { mean, variance } = output
      const keys = keysOf(counters)
      if (keys.length === 0) return
      const args = [memberOf(id), lease, mean, variance]
      // The next one comes soon.
      void commands.renew(keys, args).catch(() => {})
    },
    async stop(graceMs) {
      const giveUpAt = performance.now() + graceMs
      while (waiting > 0 && performance.now() < giveUpAt) await delay(5)
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** What would have to be fetched counts as unused. */
function atOnce(counters: Pick<CounterStore, 'read' | 'add'>): Pick<CounterStore, 'read' | 'add'> {
  return {
    add: counters.add,
    read(asked, now) {
      const states = counters.read(asked, now)
      if (!(states instanceof Promise)) return states
      states.catch(() => {})
      return asked.map(() => undefined)
    },
  }
}

/** Of a subscription and user; counters have keys of the form `subscription\nmodel\nwindow\nuser`. */
function keysOf(counters: readonly Counter[]): readonly string[] {
  const [first] = counters
  if (first === undefined) return []
  const { subscription, user } = partsOf(first)
  const name = `${subscription}\n${user}`
  const prefix = keyPrefixOf(tagOf(first.key))
  return ['held', 'holds', 'leases'].map((kind) => `${prefix}${kind}:${name}`)
}

/** The parts of a counter's key; `name` is unique among those of its subscription and user. */
function partsOf({ key }: Counter) {
  const subscriptionEnd = key.indexOf('\n')
  const modelEnd = key.indexOf('\n', subscriptionEnd + 1)
  const windowEnd = key.indexOf('\n', modelEnd + 1)
  return {
    subscription: key.slice(0, subscriptionEnd),
    name: `${key.slice(subscriptionEnd + 1, modelEnd)}|${key.slice(modelEnd + 1, windowEnd)}`,
    user: key.slice(windowEnd + 1),
  }
}

function allOf({ counters, taken }: AskedHold): readonly Required<Counter>[] {
  return taken === undefined ? counters : [...counters, ...taken]
}

function keysWith(asked: AskedHold): readonly string[] {
  const all = allOf(asked)
  return [...keysOf(all), ...all.map(({ key }) => keyPrefixOf(tagOf(key)) + key)]
}

function argsOf(asked: AskedHold, member: string, lease: number): readonly (string | number)[] {
  const { expected, counters } = asked
  const {
    input,
    inputVariance,
    output,
    outputVariance,
    floor,
    beyondRoom,
    isSeveral,
    least,
    worst,
  } = expected
  return [
    ...[member, lease, asked.charge === 'end' ? '1' : '0'],
    ...[input, inputVariance, output, outputVariance, floor],
    ...[isSeveral ? -beyondRoom : beyondRoom, least],
    Number.isFinite(worst) ? worst : -1,
    ...[asked.overshoot, asked.canCap ? '1' : '0', counters.length],
    ...allOf(asked).flatMap((counter) => [counter.limit, counter.windowMs, partsOf(counter).name]),
    asked.asker ?? '',
  ]
}

function toAnswer(
  asked: AskedHold,
  now: number,
  [outcome, cap, open, ...figures]: HeldAnswer,
): HoldAnswer {
  return {
    outcome: outcome === 'repeated' ? 'held' : (outcome as HoldAnswer['outcome']),
    ...(outcome === 'busy' && { open }),
    cap: cap < 0 ? Number.POSITIVE_INFINITY : cap,
    windows: allOf(asked).map(({ windowMs }, i) => {
      const [used = 0, leftMs = 0, held = 0] = figures.slice(3 * i, 3 * i + 3)
      if (windowMs === 0) return { used, resetsAt: now }
      if (leftMs === 0 && held === 0) return undefined
      const resetsAt = now + (leftMs > 0 ? Math.min(leftMs, windowMs) : windowMs)
      return held > 0 ? { used, resetsAt, held } : { used, resetsAt }
    }),
  }
}
