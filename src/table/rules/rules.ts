/** Which allowed requests the gateway may decide by itself the next time; all others are asked again, each time. */

import type { Grant } from '../../decide/decision.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { meterable } from '../../operations/operations.ts'
import { cellsOfBlock } from './format.ts'

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
  /** Whether it may ask for one answer only (answers.ts): that depends on its body. */
  readonly isOneAnswer: boolean
}

/** undefined: it may be decided by the table, unless it is `too_long`, which only its plan tells (plan.ts). */
export function ruleOf(grant: Grant, asked: AskedFor): MissRule | undefined {
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
