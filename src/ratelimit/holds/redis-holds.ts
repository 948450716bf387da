/** Holds that several processes share through Redis: one call for each subject of a request's counters, usually one. */

import { setTimeout as delay } from 'node:timers/promises'
import { createRestTimer, repeat } from '../../runtime/loop.ts'
import type { CounterStore } from '../counters.ts'
import type { HoldStore } from '../holds.ts'
import { windowKey } from '../redis/keys.ts'
import type { Counter, CounterState } from '../rules/counter.ts'
import { type Hold, type HoldResult, holdLeaseMs } from '../rules/hold.ts'
import type { SharedSums } from '../sums/shared-sums.ts'
import { holdCallArgs, parseHoldReply } from './hold-call.ts'
import type { HoldCommands, HoldReply } from './hold-scripts.ts'
import { createMemoryHolds } from './memory-holds.ts'
import { createRefusedCalls, type RefusalListener } from './refused-calls.ts'
import { shortRequestId } from './request-ids.ts'
import { type HoldSubject, holdSubjects, subjectHold } from './subjects.ts'
import { type HoldTarget, holdTargets, type KnownWindows, windowedCounters } from './windows.ts'

/** Milliseconds between two attempts to release what Redis has not acknowledged. */
const retryMs = 500
/** Maximum number of unacknowledged releases; beyond it the oldest holds end with their leases. */
const maxWaiting = 20_000
/** Milliseconds within which the calls for the other subjects end, and a grant is released if one of them refuses. */
const settlingMs = 2_000

export interface RedisHolds extends HoldStore {
  /** Number of releases that Redis has not acknowledged. */
  readonly waiting: number
  /** Waits at most this long (ms) for outstanding releases; the other holds end with their leases. */
  stop(graceMs: number): Promise<void>
}

/** The result of the call for a subject. */
interface SubjectResult {
  readonly subject: HoldSubject
  readonly targets: readonly HoldTarget[]
  readonly reply: HoldReply
  readonly result: HoldResult
}

interface Undo {
  readonly keys: readonly string[]
  readonly members: string[]
}

export interface RedisHoldsOptions extends RefusalListener {
  readonly commands: HoldCommands
  /** The windows as this process knows them, for decisions without Redis. */
  readonly windows: KnownWindows
  /** Fetches windows that are not known yet. */
  readonly read: CounterStore['read']
  /** The partition whose next call ends a hold, in one transaction with the sums that include its response. */
  readonly partitionOf: SharedSums['partitionOf']
  /** Whether this process is its gateway's writer; only the writer renews holds. */
  readonly isWriter: () => boolean
  /** Duration of a hold's lease in milliseconds. */
  readonly lease?: number
  /** Called for bugs. */
  readonly onFault?: (error: unknown) => void
}

export function createRedisHolds(options: RedisHoldsOptions): RedisHolds {
  const { commands, windows, read, partitionOf, isWriter, lease = holdLeaseMs } = options
  const { onFault = () => {} } = options
  /** Releases by the key of the subject's sums; all releases of one subject go into one call. */
  const due = new Map<string, Undo>()
  let waiting = 0
  /** While Redis does not respond, releases wait for the retry interval instead of being sent at once. */
  let isFailing = false
  const ending = new AbortController()
  const { signal } = ending
  const alarm = createRestTimer(signal)
  const alone = createMemoryHolds(windows)
  const refused = createRefusedCalls(options)
  /** Hash tags, by the errors of calls that failed. */
  const failedPartitions = new WeakMap<Error, string>()

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
    refused.endIfQuiet()
    const batch = [...due.values()]
    due.clear()
    const calls = batch.map(({ keys, members }) => commands.releaseHolds(keys, members))
    isFailing = false
    for (const [i, call] of (await Promise.allSettled(calls)).entries()) {
      const undo = batch[i] as Undo
      if (call.status === 'fulfilled') waiting -= undo.members.length
      else {
        isFailing = true
        refused.note(call.reason)
        enqueue(undo)
      }
    }
  }

  async function holdIn(subject: HoldSubject, asked: Hold, now: number, unsettledMs = 0) {
    const { keys, partition } = subject
    const windowed = windowedCounters(asked)
    // Both are read in one turn: in the next one another request may read lines, and the windows must include the
    // responses of ended holds.
    const look = () => ({ known: windows(windowed, now), ended: partition.lastEnded(keys) })
    let seen = look()
    if (seen.known.some(({ isKnown }) => !isKnown)) {
      await read(windowed, now)
      seen = look()
    }
    const targets = holdTargets(asked, seen.known)
    const all = [...keys]
    // Concurrency has no window: any key of the same slot serves as placeholder.
    for (const { window } of targets)
      all.push(window ? windowKey(partition.tag, window) : (all[0] as string))
    const args = holdCallArgs(asked, targets, lease, partition.gateway, unsettledMs)
    try {
      const reply = await commands.takeHold(all, [...args, ...seen.ended])
      const result = parseHoldReply(targets, now, reply)
      return { subject, targets, reply, result } satisfies SubjectResult
    } catch (error) {
      refused.note(error)
      if (error instanceof Error) failedPartitions.set(error, partition.tag)
      // The call may have succeeded although its response was lost, or cannot be read.
      takeBack(subject, asked)
      throw error
    }
  }

  function takeBack({ keys }: HoldSubject, { id, asker }: Pick<Hold, 'id' | 'asker'>): void {
    if (id === undefined) return
    const member = shortRequestId(id)
    giveBack({ keys, members: [asker ? `${member} ${asker}` : member] })
  }

  /**
   * One call after the other. Once one has refused, the grants of the others are released, and the remaining calls only
   * read. If one gets no response, all grants are released.
   */
  async function holdInEach(
    subjects: readonly HoldSubject[],
    asked: Hold,
    now: number,
  ): Promise<HoldResult> {
    const results: SubjectResult[] = []
    const granted: SubjectResult[] = []
    let next = asked
    let outcome: HoldResult['outcome'] = 'held'
    let [ceiling, open] = [Number.POSITIVE_INFINITY, 0]
    function takeAllBack(): void {
      for (const { subject, reply } of granted.splice(0)) {
        // A hold that existed before is released only for an asker with a name.
        if (reply[0] === 'held' || asked.asker) takeBack(subject, asked)
      }
    }
    try {
      for (const subject of subjects) {
        const unsettledMs = subject === subjects.at(-1) ? 0 : settlingMs
        const given = await holdIn(subject, subjectHold(subject, next, ceiling), now, unsettledMs)
        const { result } = given
        results.push(given)
        if (result.outcome === 'held') {
          if (next.id !== undefined) granted.push(given)
          ceiling = Math.min(ceiling, result.ceiling)
        } else {
          takeAllBack()
          next = { ...asked, id: undefined }
          open = Math.max(open, result.open ?? 0)
          if (outcome !== 'spent') outcome = result.outcome
        }
      }
    } catch (error) {
      takeAllBack()
      throw error
    }
    const states = statesOf(results, now, outcome !== 'held')
    const all = [...asked.counters, ...(asked.requestCounters ?? [])]
    const windows = all.map((each) => states.get(each) as CounterState)
    return outcome === 'busy' ? { outcome, ceiling, windows, open } : { outcome, ceiling, windows }
  }

  function subjectsOfHold({ counters, requestCounters = [] }: Hold): readonly HoldSubject[] {
    return holdSubjects([...counters, ...requestCounters], partitionOf)
  }

  void repeat({ step: sendDue, restMs: retryMs, onFault, signal, alarm })

  return {
    get waiting() {
      return waiting
    },
    get isRefused() {
      return refused.isRefused
    },
    failedPartition: (error) => (error instanceof Error ? failedPartitions.get(error) : undefined),
    partitionsOf: (asked) => subjectsOfHold(asked).map(({ partition }) => partition.tag),
    async hold(asked, now) {
      const subjects = subjectsOfHold(asked)
      const [subject] = subjects
      // There are no limits.
      if (subject === undefined) return alone.hold(asked, now)
      if (subjects.length > 1) return holdInEach(subjects, asked, now)
      return (await holdIn(subject, asked, now)).result
    },
    holdAlone: alone.hold,
    release(counters, id) {
      alone.release(counters, id)
      for (const { partition, keys } of holdSubjects(counters, partitionOf))
        partition.end(keys, shortRequestId(id))
    },
    undo(counters, id, asker) {
      alone.undo(counters, id, asker)
      for (const subject of holdSubjects(counters, partitionOf)) takeBack(subject, { id, asker })
    },
    renew(counters, id, output) {
      alone.renew(counters, id, output)
      if (!isWriter()) return
      const { mean, variance, inputVariance = 0 } = output
      const args = [shortRequestId(id), lease, mean, variance, inputVariance]
      for (const { keys } of holdSubjects(counters, partitionOf)) {
        // Not retried: the next renewal comes soon.
        void commands.renewHold(keys, args).catch(refused.note)
      }
    },
    async stop(graceMs) {
      const giveUpAt = performance.now() + graceMs
      while (waiting > 0 && performance.now() < giveUpAt) await delay(5)
      ending.abort()
    },
  }
}

/** The counter states in these results. */
function statesOf(
  results: readonly SubjectResult[],
  now: number,
  isGivenBack: boolean,
): Map<Counter, CounterState> {
  const states = new Map<Counter, CounterState>()
  for (const { targets, reply } of results) {
    const { windows } = parseHoldReply(targets, now, reply, isGivenBack)
    for (const [i, { counter }] of targets.entries())
      states.set(counter, windows[i] as CounterState)
  }
  return states
}
