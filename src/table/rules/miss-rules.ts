/**
 * Decides which grants the gateway may repeat by itself (all other requests ask Check each time), and names the reasons
 * of misses for metrics.
 */

import type { Grant } from '../../decide/decision.ts'
import { capsOf } from '../../keys/rules/caps-of-caller.ts'
import { meterable } from '../../operations/operations.ts'

/** Limits of one block of the table. */
export const cellsOfBlock = 6

/** Why a request asks Check each time. */
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

/** Properties of a request that its grant does not have. */
export interface AskedFor {
  readonly method: string
  /** `/v1/…`, and `?…` or empty. */
  readonly operation: string
  readonly query: string
  /** Whether its span is recorded: a hit has none. */
  readonly isTraced: boolean
  /** Whether the gateway's script found fields in its body that only a decision can judge (restrictions.ts). */
  readonly hasFields: boolean
  /** Whether it is limited to one answer (operation.ts), which depends on its body. */
  readonly isOneAnswer: boolean
}

/** Returns undefined if it may be in the table, unless it is `too_long`, which only its plan shows (hit-plan.ts). */
export function tableMissRule(grant: Grant, asked: AskedFor): MissRule | undefined {
  const { caller, admission, limits, model, metered, sentName } = grant
  if (caller.by !== 'key') return 'identity_token'
  if (caller.keyAgeMs !== undefined || caller.endsSoonAt !== undefined) return 'key_news'
  if (capsOf(caller)?.networks !== undefined) return 'addresses'
  if (asked.method !== 'POST' || !fixed.has(asked.operation)) return 'operation'
  if (asked.query !== '' && asked.query !== betaQuery) return 'query'
  if (grant.isUnread) return 'unread'
  if (!metered) return 'unmetered'
  if (admission !== undefined) return 'reserve'
  if (grant.isByTariff) return 'budget'
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

/** Sent by Anthropic's clients with each message. */
const betaQuery = '?beta=true'

/**
 * Reasons that the gateway's script gives (docs/table.md). `off` and `closed` concern the table; `unknown`: there is no
 * record; `stale`, `limit`, `window` and `fresh` concern the record and its blocks; `shape`, `traced` and `clock` the
 * request and the machine.
 */
export const scriptMisses = [
  ...['off', 'closed', 'unknown', 'stale', 'limit', 'window', 'fresh', 'shape', 'traced', 'clock'],
] as const

const known: ReadonlySet<string> = new Set(scriptMisses)

/** Why a grant was not published: the rule that forbids it, or `first` if no such grant preceded it recently. */
export type UnpublishedReason = MissRule | 'first'

/**
 * The reason of a miss, one of a fixed list: the script's word (`none` if it gave none, `other` for an unknown one), or
 * the rule that keeps the request out of the table. `said`: may come from a client.
 */
export function missReason(said: string | undefined, rule: UnpublishedReason | undefined): string {
  if (said === undefined) return 'none'
  if (!known.has(said)) return 'other'
  return said === 'unknown' ? (rule ?? said) : said
}
