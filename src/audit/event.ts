/** An event of the audit trail: who did what to which key or resource, and the outcome. */

import { redact } from '../formats/redact.ts'
import type { Caller } from '../identity/rules/caller.ts'

export type AuditAction =
  | 'key.create'
  | 'key.read'
  | 'key.search'
  | 'key.explain'
  | 'key.change'
  | 'key.rotate'
  | 'key.revoke'
  | 'key.bulk_revoke'
  | 'key.bulk_revoke_preview'
  | 'key.take_over'
  | 'key.cleanup'
  | 'usage.read'
  | 'refusals.read'
  | 'counter.read'
  | 'counter.reset'
  | 'increase.read'
  | 'increase.create'
  | 'increase.end'
  | 'limit_request.read'
  | 'limit_request.create'
  | 'limit_request.approve'
  | 'limit_request.deny'
  | 'resources.apply'
  | 'gateway.drain'
  | 'log.level'
  | 'service.start'
  | 'service.stop'

/**
 * `intent`: about to be done. `refused`: not done, and the caller gets the reason. `failed`: not
 * done, because of a bug. `unknown`: the database may or may not have done it.
 */
export type AuditOutcome = 'intent' | 'success' | 'refused' | 'failed' | 'unknown'

export interface AuditActor {
  readonly user: string
  /** What verified the user; `internal`: a caller of the internal listener. */
  readonly source: 'file' | 'oidc' | 'cluster' | 'key' | 'internal' | 'service' | 'cli'
  readonly issuer?: string
  readonly keyId?: string
}

export interface AuditTarget {
  readonly keyId?: string
  readonly user?: string
  readonly subscription?: string
  readonly resource?: string
  /** A shared limit by name, and the user or group to which the event is restricted, if any. */
  readonly limit?: string
  readonly whom?: string
  /** The new level of the log. */
  readonly level?: string
}

/** A resource by kind and name, and its change. */
export interface ResourceChange {
  readonly change: 'added' | 'changed' | 'removed'
  readonly resource: string
}

export interface AuditEvent {
  readonly action: AuditAction
  readonly outcome: AuditOutcome
  /** The status of the HTTP response; null in the line if there is none. */
  readonly status?: number | undefined
  readonly actor: AuditActor
  readonly target?: AuditTarget | undefined
  readonly count?: number | undefined
  readonly changes?: readonly ResourceChange[]
  /** Links an intent to its outcome, and both to the log. */
  readonly requestId: string
  readonly traceId?: string | undefined
  /** The request's address; null in the line if it did not come over the network. */
  readonly address?: string | undefined
}

/** The actor of actions of the service itself. */
export const serviceActor: AuditActor = { user: 'tollgate', source: 'service' }

/** A caller as an actor of the trail. */
export function actorOf(caller: Caller): AuditActor {
  const { user } = caller
  if (caller.by === 'key') return { user, source: 'key', keyId: caller.keyId }
  const { proof } = caller
  return { user, source: proof.by, ...(proof.by === 'oidc' && { issuer: proof.issuer }) }
}

/** The event's line, without secrets and with a line break at its end. `time` in milliseconds since the epoch. */
export function toLine(event: AuditEvent, replica: string, time: number): string {
  const { action, outcome, actor, count, changes, traceId } = event
  const line = JSON.stringify({
    kind: 'audit',
    time: new Date(time).toISOString(),
    action,
    outcome,
    status: event.status ?? null,
    actor,
    target: event.target ?? {},
    ...(count !== undefined && { count }),
    ...(changes !== undefined && { changes }),
    request_id: event.requestId,
    ...(traceId !== undefined && { trace_id: traceId }),
    address: event.address ?? null,
    replica,
  })
  return `${redact(line)}\n`
}
