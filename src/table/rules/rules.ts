/**
 * Which allowed requests the gateway may decide by itself the next time; all others are asked again, each time. And why a
 * request was not decided so, as metrics name it.
 */

import type { Grant } from '../../decide/decision.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { meterable } from '../../operations/operations.ts'

/** Limits of one block of the table. */
export const cellsOfBlock = 6

/** Why a request is asked each time. */
export const missRules = [
  'identity_token',
  'reserve',
  'budget',
  'requests',
  'concurrency',
  'limits',
  'addresses',
  'renamed',
  'key_news',
  'traced',
  'operation',
  'query',
  'unread',
  'unmetered',
  'one_answer',
  'fields',
  'too_long',
] as const

export type MissRule = (typeof missRules)[number]

/** Of the request what a grant does not say. */
export interface AskedFor {
  readonly method: string
  /** `/v1/…`, and `?…` or empty. */
  readonly operation: string
  readonly query: string
  /** Whether its span is recorded: a decision of the table has none. */
  readonly isTraced: boolean
  /** Whether the gateway's script has named fields of its body that only a decision can judge (restrictions.ts). */
  readonly hasFields: boolean
  /** Whether it may ask for one answer only (operation.ts): that depends on its body. */
  readonly isOneAnswer: boolean
}

/** undefined: it may be decided by the table, unless it is `too_long`, which only its plan tells (plan.ts). */
export function missRuleOf(grant: Grant, asked: AskedFor): MissRule | undefined {
  const { caller, admission, limits, model, metered, sentName } = grant
  if (caller.by !== 'key') return 'identity_token'
  if (caller.keyAgeMs !== undefined || caller.endsSoonAt !== undefined) return 'key_news'
  if (capsOf(caller)?.networks !== undefined) return 'addresses'
  if (asked.method !== 'POST' || !fixed.has(asked.operation)) return 'operation'
  if (asked.query !== '' && asked.query !== betaQuery) return 'query'
  if (grant.isUnread) return 'unread'
  if (!metered) return 'unmetered'
  if (admission !== undefined) return 'reserve'
  if (grant.isBudgeted) return 'budget'
  for (const { kind } of limits) {
    if (kind === 'requests' || kind === 'concurrency') return kind
  }
  if (limits.length > cellsOfBlock) return 'limits'
  if (sentName !== undefined || model.resource.server.upstreamModel !== undefined) return 'renamed'
  if (asked.isOneAnswer) return 'one_answer'
  if (asked.hasFields) return 'fields'
  return asked.isTraced ? 'traced' : undefined
}

const fixed: ReadonlySet<string> = new Set(Object.values(meterable))

/** What Anthropic's clients send with each message. */
const betaQuery = '?beta=true'

/**
 * What the gateway's script says (docs/table.md), of a request that would be in the table if it is allowed, too:
 * `off` and `closed`: of the table; `unknown`: it is not there; `stale`, `limit`, `window` and `fresh`: of what is there;
 * `shape`, `traced` and `clock`: of the request, and the machine.
 */
export const scriptMisses = [
  ...['off', 'closed', 'unknown', 'stale', 'limit', 'window', 'fresh', 'shape', 'traced', 'clock'],
] as const

const known: ReadonlySet<string> = new Set(scriptMisses)

/** Why an allowed request was not published: the rule that forbids it, or it was the first of its kind recently. */
export type Unpublished = MissRule | 'first'

/**
 * One of a fixed list: the script's word (`none`: it says nothing, `other`: no known one), and for a request that is
 * not put into the table why it is not. `said`: as a client may have written it.
 */
export function missReason(said: string | undefined, rule: Unpublished | undefined): string {
  if (said === undefined) return 'none'
  if (!known.has(said)) return 'other'
  return said === 'unknown' ? (rule ?? said) : said
}
