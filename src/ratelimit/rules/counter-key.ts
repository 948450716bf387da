/**
 * The key of a counter, the same in every process and store: the lines `subscription`, `model`, what is
 * counted, and `user`, who comes last because only a user may contain a line break. Users, groups and organizations are
 * in it as in lines, where their length is bounded.
 */

import { toBoundJson } from '../../formats/bound-text.ts'
import type { LimitKind } from '../../kinds/limits.ts'

interface CounterKey {
  /** The bare name of a Subscription; of a limit by name the resource that has it (charged-limits.ts). */
  readonly subscription: string
  /** `<namespace>/<name>`, or what stands for all models together: `@<key>`, `#<limit>`, `@<key>#<limit>`. */
  readonly model: string
  /** Kind and window, as `countedAs` has it; empty: all kinds. */
  readonly counted: string
  /** As lines name them; of a limit by name whose use it is. */
  readonly user: string
}

/** `60000` of tokens, `requests-60000`, `concurrency`. */
export function countedAs(kind: LimitKind, windowMs: number): string {
  return [kind === 'tokens' ? '' : kind, windowMs || ''].filter(Boolean).join('-')
}

export function kindOf({ counted }: Pick<CounterKey, 'counted'>): LimitKind {
  return kinds.find((kind) => counted.startsWith(kind)) ?? 'tokens'
}

const kinds = ['input', 'output', 'requests', 'concurrency', 'cost'] as const

export function counterKey(parts: CounterKey): string {
  return counterKeyPrefix(parts) + parts.user
}

/** The key without the user. */
export function counterKeyPrefix({ subscription, model, counted }: Omit<CounterKey, 'user'>) {
  return `${subscription}\n${model}\n${counted}\n`
}

export function readCounterKey(key: string): CounterKey {
  const subscriptionEnd = key.indexOf('\n')
  const modelEnd = key.indexOf('\n', subscriptionEnd + 1)
  const countedEnd = key.indexOf('\n', modelEnd + 1)
  return {
    subscription: key.slice(0, subscriptionEnd),
    model: key.slice(subscriptionEnd + 1, modelEnd),
    counted: key.slice(modelEnd + 1, countedEnd),
    user: key.slice(countedEnd + 1),
  }
}

/** The same for all counters of a subscription's user, whose holds are together. */
export function subjectOf({ subscription, user }: CounterKey): string {
  return `${subscription}\n${user}`
}

/** The most bytes of a user's name in a line, with its quotes and escapes; and of a group's or an organization's. */
export const userBytes = 640
export const groupBytes = 256

/** A user as lines name it; the same again for such a name. */
export function userInLines(user: string): string {
  return inLines(user, userBytes)
}

/** The same of a group, or an organization. */
export function groupInLines(group: string): string {
  return inLines(group, groupBytes)
}

function inLines(name: string, bytes: number): string {
  // Whatever has to be escaped, of which a UTF-16 unit has at most six bytes; each Check asks this for each limit.
  if (name.length <= (bytes - 2) / 6) return name
  return JSON.parse(toBoundJson(name, bytes)) as string
}

/** The counter of the users that a Subscription lists by name. */
export const membersByName = 'users'

/** As counters name it. A group of that name shares the pool: what is shown as one is one. */
export function poolOfGroup(group: string): string {
  return group === membersByName ? '' : groupInLines(group)
}
