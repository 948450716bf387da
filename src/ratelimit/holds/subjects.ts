/**
 * The subjects of a request's limits: users of Subscriptions, and those that share a limit. The holds of a subject are
 * stored together, so one call decides by all of its counters; a request with several subjects needs one call for each.
 */

import type { Counter } from '../rules/counter.ts'
import { holdSubjectOf, parseCounterKey } from '../rules/counter-key.ts'
import type { Hold } from '../rules/hold.ts'
import type { Partition } from '../sums/partition.ts'
import type { SharedSums } from '../sums/shared-sums.ts'

export interface HoldSubject {
  /** As in the keys of its counters (ratelimit/rules/counter-key.ts). */
  readonly name: string
  readonly partition: Partition
  /** Keys of the sums of open holds, of the holds, and of their leases. */
  readonly keys: readonly string[]
  /** Those of the request. */
  readonly counters: Counter[]
}

/**
 * The subjects of these counters, in the same order for all requests, so that of two requests that compete for the same
 * subjects one is admitted. The user comes first, then subjects that more users share.
 */
export function holdSubjects(
  counters: readonly Counter[],
  partitionOf: SharedSums['partitionOf'],
): readonly HoldSubject[] {
  const subjects = new Map<string, HoldSubject>()
  for (const counter of counters) {
    const name = holdSubjectOf(parseCounterKey(counter.key))
    const found = subjects.get(name)
    const partition = found?.partition ?? partitionOf(counter)
    if (found !== undefined) found.counters.push(counter)
    else if (partition !== undefined) {
      const keys = keysOf(partition.tag, name)
      subjects.set(name, { name, partition, keys, counters: [counter] })
    }
  }
  const all = [...subjects.values()]
  // Names of Subscriptions are lower-case; names of wider resources begin with a capital.
  return all.length > 1 ? all.sort((a, b) => (a.name < b.name ? 1 : -1)) : all
}

function keysOf(tag: string, name: string): readonly string[] {
  return ['held', 'holds', 'leases'].map((kind) => `tollgate:{${tag}}:${kind}:${name}`)
}

/** The demand on one of the request's subjects, after earlier ones have limited its output to `ceiling`. */
export function subjectHold(subject: HoldSubject, asked: Hold, ceiling: number): Hold {
  const { counters, requestCounters = [], expected } = asked
  const isHere = (counter: Counter): boolean => subject.counters.includes(counter)
  return {
    ...asked,
    counters: counters.filter(isHere),
    requestCounters: requestCounters.filter(isHere),
    expected: { ...expected, worst: Math.min(expected.worst, ceiling) },
  }
}
