/**
 * The key of a counter, equal in every process and store: the lines `subscription`, `model`, kind and window, and
 * `user`, which comes last because only a user may contain a line break. Users, groups and organizations are as in
 * journal lines, where their length is bounded.
 */

import { toBoundedJson } from '../../formats/bounded-text.ts'
import type { LimitKind } from '../../kinds/limits.ts'

interface CounterKey {
  /** The bare name of a Subscription; for a limit by name, its resource (charged-limits.ts). */
  readonly subscription: string
  /** `<namespace>/<name>`, or for several models together `@<key>`, `#<limit>`, `@<key>#<limit>`. */
  readonly model: string
  /** Kind and window, as `unitText` writes them; empty for all kinds. */
  readonly counted: string
  /** As in lines; for a limit by name, the owner of the use (`counterOwnerOf`). */
  readonly user: string
}

/** `60000` for tokens, `requests-60000`, `concurrency`. */
export function unitText(kind: LimitKind, windowMs: number): string {
  return [kind === 'tokens' ? '' : kind, windowMs || ''].filter(Boolean).join('-')
}

/** The kind of the limits that the counter is of. */
export function limitKindOfKey({ counted }: Pick<CounterKey, 'counted'>): LimitKind {
  return kinds.find((kind) => counted.startsWith(kind)) ?? 'tokens'
}

const kinds = ['input', 'output', 'requests', 'concurrency', 'cost'] as const

/** The key of the counter with these parts. */
export function counterKey(parts: CounterKey): string {
  return counterKeyPrefix(parts) + parts.user
}

/** The key without the user. */
export function counterKeyPrefix({ subscription, model, counted }: Omit<CounterKey, 'user'>) {
  return `${subscription}\n${model}\n${counted}\n`
}

/** The parts of a key of `counterKey`. */
export function parseCounterKey(key: string): CounterKey {
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

/** Who uses a counter: a user of a Subscription, or those that share the limit. The holds of a subject are stored together. */
export function holdSubjectOf({ subscription, user }: CounterKey): string {
  return `${subscription}\n${user}`
}

/** Maximum bytes in a line, with quotes and escapes, of a user's name, and of a group's or an organization's. */
export const maxUserBytes = 640
export const maxGroupBytes = 256

/** The name of a user in lines. Idempotent. */
export function userInLines(user: string): string {
  return inLines(user, maxUserBytes)
}

/** The name of a group or an organization in lines. Idempotent. */
export function groupInLines(group: string): string {
  return inLines(group, maxGroupBytes)
}

function inLines(name: string, bytes: number): string {
  // Short enough even if each UTF-16 unit is escaped to six bytes; a fast path, because each Check asks this for each
  // limit.
  if (name.length <= (bytes - 2) / 6) return name
  return JSON.parse(toBoundedJson(name, bytes)) as string
}

/** The displayed pool of the users that a Subscription lists by name. */
export const namedUsersPool = 'users'

/**
 * The pool of a group, as in counters. A group named like the users' pool shares it, because both are displayed alike.
 */
export function poolOfGroup(group: string): string {
  return group === namedUsersPool ? '' : groupInLines(group)
}
