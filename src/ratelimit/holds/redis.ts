/** Holds that several processes share through Redis: one call for each request. */

import { setTimeout as delay } from 'node:timers/promises'
import { createAlarm, repeat } from '../../runtime/loop.ts'
import type { CounterStore } from '../counters.ts'
import type { HoldStore } from '../holds.ts'
import type { Counter } from '../rules/counter.ts'
import { readCounterKey, subjectOf } from '../rules/counter-key.ts'
import { leaseMs } from '../rules/estimates/hold.ts'
import type { Hold, HoldAnswer } from '../rules/hold.ts'
import { keyOf, type Part } from '../sums/part.ts'
import type { SharedSums } from '../sums/shared-sums.ts'
import { createMemoryHolds } from './memory.ts'
import { memberOf } from './request-ids.ts'
import type { SpendAnswer, SpendCommands } from './spend-scripts.ts'
import { boundWindow, type KnownWindows, type Place, placesOf, windowedOf } from './windows.ts'

/** Between two attempts to give back what Redis has not acknowledged. */
const retryMs = 500
/** The most of these that wait for Redis; beyond it the oldest are left to their leases. */
const maxWaiting = 20_000

export interface RedisHolds extends HoldStore {
  /** What is given back, and Redis has not acknowledged. */
  readonly waiting: number
  /** Gives back the rest, for at most this long (ms); what remains is left to the leases. */
  stop(graceMs: number): Promise<void>
}

interface Home {
  readonly part: Part
  readonly keys: readonly string[]
}

interface Undo {
  readonly keys: readonly string[]
  readonly members: string[]
}

export interface RedisHoldsOptions {
  readonly commands: SpendCommands
  /** What this process knows to be used, beside which it holds alone. */
  readonly windows: KnownWindows
  /** Asks for windows that are not known yet. */
  readonly read: CounterStore['read']
  /** A hold ends in one step with the sums of its gateway that have its response. */
  readonly partOf: SharedSums['partOf']
  /** Whether this process is the one that writes for its gateway; the others leave it what lines say. */
  readonly isWriter: () => boolean
  /** In milliseconds. */
  readonly lease?: number
}

export function createRedisHolds(options: RedisHoldsOptions): RedisHolds {
  const { commands, windows, read, partOf, isWriter, lease = leaseMs } = options
  /** By the key of the sums; those of one call at most. */
  const due = new Map<string, Undo>()
  let waiting = 0
  /** While Redis does not answer, it is asked at times, and not for each. */
  let isFailing = false
  const ending = new AbortController()
  const { signal } = ending
  const alarm = createAlarm(signal)
  const alone = createMemoryHolds(windows)

  /** What has the counters of this one's subscription and user, and where their holds are. */
  function homeOf(counter: Counter | undefined): Home | undefined {
    const part = counter && partOf(counter)
    return part && { part, keys: keysOf(part.tag, counter) }
  }

  function giveBack(undo: Undo): void {
    waiting += undo.members.length
    enqueue(undo)
    const [oldest] = waiting > maxWaiting ? due : []
    if (oldest !== undefined) {
      due.delete(oldest[0])
      waiting -= oldest[1].members.length
    }
    if (!isFailing) alarm.ring()
  }

  function enqueue({ keys, members }: Undo): void {
    const [name = ''] = keys
    const found = due.get(name)
    if (found === undefined) due.set(name, { keys, members })
    else found.members.push(...members)
  }

  async function sendDue(): Promise<void> {
    const batch = [...due.values()]
    due.clear()
    const calls = batch.map(({ keys, members }) => commands.releaseSpent(keys, members))
    isFailing = false
    for (const [i, { status }] of (await Promise.allSettled(calls)).entries()) {
      const undo = batch[i] as Undo
      if (status === 'fulfilled') waiting -= undo.members.length
      else {
        // Said by the counters of the same Redis.
        isFailing = true
        enqueue(undo)
      }
    }
  }

  void repeat({ step: sendDue, restMs: retryMs, onFault() {}, signal, alarm })

  return {
    get waiting() {
      return waiting
    },
    async hold(asked, now) {
      const { counters, taken = [] } = asked
      const home = homeOf(counters[0] ?? taken[0])
      // Without limits there is nothing to share.
      if (home === undefined) return alone.hold(asked, now)
      const { keys, part } = home
      const windowed = windowedOf(asked)
      // In one turn: another request may have lines read in the next, and a window must have the responses of what has ended.
      const look = () => ({ known: windows(windowed, now), ended: part.lastEnded(keys) })
      let seen = look()
      if (seen.known.some(({ isKnown }) => !isKnown)) {
        await read(windowed, now)
        seen = look()
      }
      const places = placesOf(asked, seen.known)
      const member = asked.id === undefined ? '' : memberOf(asked.id)
      const all = [...keys]
      // A place in a limit on concurrency has no sums: any key of the same slot stands for them.
      for (const { window } of places)
        all.push(window ? keyOf(part.tag, window) : (all[0] as string))
      try {
        const answer = await commands.spend(all, [
          ...argsOf(asked, places, member, lease, part.gateway),
          ...seen.ended,
        ])
        return toAnswer(places, now, answer)
      } catch (error) {
        // The answer may be lost rather than the call.
        const undone = asked.asker ? `${member} ${asked.asker}` : member
        if (member !== '') giveBack({ keys, members: [undone] })
        throw error
      }
    },
    holdAlone: alone.hold,
    release(counters, id) {
      alone.release(counters, id)
      const home = homeOf(counters[0])
      home?.part.end(home.keys, memberOf(id))
    },
    undo(counters, id, asker) {
      alone.undo(counters, id, asker)
      const home = homeOf(counters[0])
      if (home) giveBack({ keys: home.keys, members: [`${memberOf(id)} ${asker}`] })
    },
    renew(counters, id, output, now) {
      alone.renew(counters, id, output, now)
      const home = homeOf(counters[0])
      if (home === undefined || !isWriter()) return
      const { mean, variance } = output
      // The next one comes soon.
      void commands.renewSpent(home.keys, [memberOf(id), lease, mean, variance]).catch(() => {})
    },
    async stop(graceMs) {
      const giveUpAt = performance.now() + graceMs
      while (waiting > 0 && performance.now() < giveUpAt) await delay(5)
      ending.abort()
    },
  }
}

/** The keys of the sums of open holds, of the holds and of their leases. */
function keysOf(tag: string, counter: Counter): readonly string[] {
  const name = subjectOf(readCounterKey(counter.key))
  return ['held', 'holds', 'leases'].map((kind) => `tollgate:{${tag}}:${kind}:${name}`)
}

/** The name of a place in the sums of its subject: of a counter, or of one of its windows. */
function nameOf(place: Place, charge: Hold['charge']): string {
  const { key } = place.counter
  const { model, counted } = readCounterKey(key)
  const { id = key } = boundWindow(place, charge) ?? {}
  return `${model}|${counted}${id.slice(key.length)}`
}

function argsOf(
  asked: Hold,
  places: readonly Place[],
  member: string,
  lease: number,
  gateway: string,
): readonly (string | number)[] {
  const { expected, overshoot, canCap, charge, asker = '' } = asked
  const { input, inputVariance, output, outputVariance } = expected
  const { floor, beyondRoom, isSeveral, least, worst } = expected
  const args = [
    ...[member, lease, input, inputVariance, output, outputVariance, floor],
    ...[isSeveral ? -beyondRoom : beyondRoom, least, Number.isFinite(worst) ? worst : -1],
    ...[overshoot, canCap ? '1' : '0', asker, gateway],
  ]
  for (const place of places) {
    const { kind, counter, window } = place
    const { used, own } = window ?? { used: 0, own: 0 }
    args.push(kind, counter.limit, nameOf(place, charge), used - own, own)
  }
  return args
}

function toAnswer(
  places: readonly Place[],
  now: number,
  [outcome, cap, open, ...figures]: SpendAnswer,
): HoldAnswer {
  return {
    outcome: outcome === 'repeated' ? 'held' : (outcome as HoldAnswer['outcome']),
    ...(outcome === 'busy' && { open }),
    cap: cap < 0 ? Number.POSITIVE_INFINITY : cap,
    windows: places.map(({ window }, i) => {
      const [used = 0, held = 0] = figures.slice(2 * i, 2 * i + 2)
      const state = { used, resetsAt: window?.resetsAt ?? now }
      return held > 0 ? { ...state, held } : state
    }),
  }
}
