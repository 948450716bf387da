/**
 * The homes of a request's holds. The counters of one subject (ratelimit/rules/counter-key.ts) have one home, which
 * decides in one call; a request whose limits have several subjects asks each of their homes.
 */

import type { Counter } from '../rules/counter.ts'
import { readCounterKey, subjectOf } from '../rules/counter-key.ts'
import type { Hold } from '../rules/hold.ts'
import type { Part } from '../sums/part.ts'
import type { SharedSums } from '../sums/shared-sums.ts'

export interface Home {
  readonly subject: string
  readonly part: Part
  /** Keys of the sums of open holds, of the holds, and of their leases. */
  readonly keys: readonly string[]
  /** The request's counters with this home. */
  readonly counters: Counter[]
}

/**
 * The homes of these counters, in the same order for all requests, so that of two requests that compete for the same
 * homes one is admitted. The user's own home comes first, then homes that more users share.
 */
export function homesOf(
  counters: readonly Counter[],
  partOf: SharedSums['partOf'],
): readonly Home[] {
  const homes = new Map<string, Home>()
  for (const counter of counters) {
    const subject = subjectOf(readCounterKey(counter.key))
    const found = homes.get(subject)
    const part = found?.part ?? partOf(counter)
    if (found !== undefined) found.counters.push(counter)
    else if (part !== undefined) {
      homes.set(subject, { subject, part, keys: keysOf(part.tag, subject), counters: [counter] })
    }
  }
  const all = [...homes.values()]
  // Names of Subscriptions are lower-case; names of wider resources begin with a capital.
  return all.length > 1 ? all.sort((a, b) => (a.subject < b.subject ? 1 : -1)) : all
}

function keysOf(tag: string, subject: string): readonly string[] {
  return ['held', 'holds', 'leases'].map((kind) => `tollgate:{${tag}}:${kind}:${subject}`)
}

/** The hold that a request asks of one of its homes, after earlier homes have limited its output to `ceiling`. */
export function askedOf(home: Home, asked: Hold, ceiling: number): Hold {
  const { counters, requestCounters = [], expected } = asked
  const isHere = (counter: Counter): boolean => home.counters.includes(counter)
  return {
    ...asked,
    counters: counters.filter(isHere),
    requestCounters: requestCounters.filter(isHere),
    expected: { ...expected, worst: Math.min(expected.worst, ceiling) },
  }
}
