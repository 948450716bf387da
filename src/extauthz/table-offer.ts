/** Offers the grants of Check to the gateway's table. */

import type { Grant } from '../decide/decision.ts'
import { allowsOneChoiceOnly } from '../decide/steps/operation.ts'
import { isTraceSampled } from '../formats/headers.ts'
import type { KeyCaller } from '../identity/rules/caller.ts'
import type { Snapshot } from '../models/rules/snapshot.ts'
import { dialectOf } from '../operations/dialect.ts'
import type { PathRules } from '../operations/operations.ts'
import type { RequestTarget } from '../operations/request-target.ts'
import { tableMissRule, type UnpublishedReason } from '../table/rules/miss-rules.ts'
import type { DecisionTable, PublishedEstimate } from '../table/table.ts'
import type { CheckRequest } from './check-request.ts'

export type AdmittingTable = Pick<DecisionTable, 'mark' | 'admit'>

interface AdmitDeps {
  readonly table: AdmittingTable
  readonly paths: PathRules
  readonly snapshot: () => Snapshot
}

/** A granted request of a key. */
interface Allowed extends CheckedRequest {
  readonly grant: Grant
  readonly key: KeyCaller
  readonly target: RequestTarget
}

/** A request whose credential was checked. */
export interface CheckedRequest {
  readonly request: CheckRequest
  /** The request's only credential; undefined only if it may not be allowed. */
  readonly credential: string | undefined
  readonly now: number
  readonly traceparent: string | undefined
  /** The table's mark, read before the credential was looked up: after a later withdrawal nothing is published. */
  readonly mark: number
}

/**
 * Call it in the turn of the decision, with nothing awaited in between. Returns why the next such request will be
 * a miss. Never throws.
 */
export function createTableOffer({ table, paths, snapshot }: AdmitDeps) {
  return (allowed: Allowed): UnpublishedReason | undefined => {
    const { grant, key, credential, request, target, now, traceparent, mark } = allowed
    const { operation, query, modelKey } = target
    const rule =
      tableMissRule(grant, {
        method: request.method,
        operation,
        query,
        isTraced: isTraceSampled(traceparent),
        hasFields: request.bodyProblem !== undefined,
        isOneAnswer: allowsOneChoiceOnly(grant.model, operation, paths, snapshot()),
      }) ?? (isSized(grant) ? undefined : 'unread')
    const { remembered } = key
    // Without it the record could not be withdrawn.
    if (remembered === undefined || credential === undefined) return 'key_news'
    return table.admit({
      grant,
      credential,
      now,
      mark,
      rule,
      keyHash: remembered.hash,
      endsAt: remembered.until,
      path: request.path,
      bodyModel: modelKey === undefined ? request.model : undefined,
      dialect: dialectOf(operation),
      estimate: estimateOf(grant),
    })
  }
}

/** Whether the charge without a report, if there is one, is known for each byte of such a request. */
function isSized({ held }: Grant): boolean {
  return held?.estimate === undefined || (held.bytes ?? 0) > 0
}

/** Estimates of the input are proportional to the body (ratelimit/rules/estimates/estimator.ts). */
function estimateOf({ held }: Grant): PublishedEstimate | undefined {
  const { estimate, bytes } = held ?? {}
  if (estimate === undefined || !bytes) return undefined
  return { inputPerByte: estimate.input / bytes, bytesPerToken: estimate.bytesPerToken }
}
