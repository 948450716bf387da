/** Decision → `envoy.service.auth.v3.CheckResponse`, as bytes. */

import { challengeOf } from '../core/challenge.ts'
import type { Decision, Denial, Grant } from '../core/decide.ts'
import { type Dialect, toRefusalBody } from '../core/dialect.ts'
import { describe, type ErrorCode, retryAfterOutage } from '../core/errors.ts'
import { putLimitHeaders, secondsUntil } from '../core/limit-headers.ts'
import type { ModelServer } from '../core/resources.ts'
import { writeStruct } from '../grpc/struct.ts'
import { WireWriter } from '../grpc/wire.ts'
import { messageOf } from './refusal-message.ts'

/** google.rpc.Code of a denial. Never 0: Envoy takes a missing or zero code for an allow. */
const grpcCodes: Partial<Record<number, number>> = {
  400: 3,
  401: 16,
  403: 7,
  404: 5,
  429: 8,
  503: 14,
}
const internalCode = 13

/** As the routes of envoy/bootstrap.yaml have it. */
const usualRetries = 2

/** What an allow seldom exceeds; small enough for Node's buffer pool. */
const allowBytes = 1_024

/** Fields of OkHttpResponse; a DeniedHttpResponse has its response headers in the first one. */
const requestHeaders = 2
const responseHeaders = 6

/** `HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`: a client's or a model's own copy never survives. */
const overwrite = 2

/**
 * The clients of OpenAI and Anthropic try again by themselves, but within a minute whatever
 * `retry-after` says. Where that is in vain they are told so (`x-should-retry`, their own header).
 */
const longestRetryAfterS = 60

/**
 * The answer's bytes, in the caller's dialect. `now` in milliseconds since the epoch. `keyAgeMs`
 * is told to the caller: how old what is known of the key may be, where that is worth a word.
 */
export function toCheckResponse(
  decision: Decision,
  now: number,
  dialect: Dialect,
  keyAgeMs?: number,
): Buffer {
  return decision.allowed
    ? allow(decision, now, dialect, keyAgeMs)
    : deny(decision, now, dialect, keyAgeMs)
}

/**
 * CheckResponse: status = 1, ok_response = 3, dynamic_metadata = 4. OkHttpResponse: headers = 2,
 * headers_to_remove = 5, response_headers_to_add = 6.
 */
function allow(grant: Grant, now: number, dialect: Dialect, keyAgeMs: number | undefined): Buffer {
  const writer = new WireWriter(allowBytes)
  writer.message(1, () => {})
  writer.message(3, () => {
    writeHeader(writer, 'x-maas-subscription', grant.subscription)
    writeHeader(writer, 'x-tollgate-cluster', grant.cluster)
    writeHeader(writer, 'x-tollgate-path', grant.upstreamPath)
    if (grant.bodyNames !== undefined) writeHeader(writer, 'x-tollgate-models', grant.bodyNames)
    writeServer(writer, grant.model.resource.server)
    writer.string(5, 'authorization').string(5, 'x-api-key').string(5, 'proxy-authorization')
    putLimitHeaders(dialect, grant.states, now, (name, value) =>
      writeHeader(writer, name, value, responseHeaders),
    )
    if (keyAgeMs !== undefined) writeKeyAge(writer, keyAgeMs, responseHeaders)
  })
  writeStruct(writer, 4, {
    user: grant.caller.user,
    key: grant.caller.by === 'key' ? grant.caller.keyId : '',
    subscription: grant.subscription,
    model: grant.model.key,
    metered: grant.metered,
    // What usage.lua has to read and to say; OpenAI's words are the usual ones.
    ...(dialect === 'anthropic' && { dialect }),
    ...(grant.model.resource.server.credential && { credential: true }),
    ...(grant.owningGroup !== undefined && { group: grant.owningGroup }),
  })
  return writer.finish()
}

/** What the gateway's routes and scripts have to know of the model's server, where it is unusual. */
function writeServer(writer: WireWriter, server: ModelServer): void {
  const { upstreamModel, idleMs, answerMs, retries } = server
  if (upstreamModel !== undefined) writeHeader(writer, 'x-tollgate-upstream-model', upstreamModel)
  if (idleMs !== undefined) writeHeader(writer, 'x-tollgate-idle', `${idleMs / 1_000}s`)
  if (answerMs !== undefined) {
    writeHeader(writer, 'x-envoy-upstream-rq-timeout-ms', String(answerMs))
  }
  if (retries !== usualRetries) writeHeader(writer, 'x-envoy-max-retries', String(retries))
}

/** Lets a request pass to where its body is read; what comes of it is for the second Check to say. */
export const authenticated: Buffer = new WireWriter()
  .message(1, () => {})
  .message(3, () => {})
  .finish()

/** DeniedHttpResponse (2): status = 1, headers = 2, body = 3. */
function deny(denial: Denial, now: number, dialect: Dialect, keyAgeMs: number | undefined): Buffer {
  const { status } = describe(denial.code)
  const writer = new WireWriter()
  writer.message(1, () => writer.unsigned(1, grpcCodes[status] ?? internalCode))
  writer.message(2, () => {
    writer.message(1, () => writer.unsigned(1, status))
    writeHeader(writer, 'content-type', 'application/json')
    for (const [name, value] of headersOf(denial, now)) writeHeader(writer, name, value)
    putLimitHeaders(dialect, denial.states ?? [], now, (name, value) =>
      writeHeader(writer, name, value),
    )
    if (keyAgeMs !== undefined) writeKeyAge(writer, keyAgeMs)
    writer.string(3, JSON.stringify(toRefusalBody(dialect, denial.code, messageOf(denial, now))))
  })
  return writer.finish()
}

/** What a refusal says beside its body and the caller's limits (contract, 1.2 and 8.1). */
function headersOf(denial: Denial, now: number): readonly (readonly [string, string])[] {
  const byStatus: Partial<Record<ErrorCode, readonly [string, string]>> = {
    store_unavailable: ['retry-after', retryAfterOutage],
    store_slow: ['retry-after', retryAfterOutage],
    store_locked: ['retry-after', retryAfterOutage],
    identity_unavailable: ['retry-after', retryAfterOutage],
    counters_unavailable: ['retry-after', retryAfterOutage],
    model_unavailable: ['retry-after', retryAfterOutage],
  }
  if (denial.code === 'credential_invalid') {
    // RFC 6750, 3.1: where there is no credential, nothing is said about one.
    const reason = denial.detail && messageOf(denial, now)
    return [['www-authenticate', reason === undefined ? 'Bearer' : challengeOf(reason)]]
  }
  const header = byStatus[denial.code]
  if (header !== undefined) return [header]
  if (denial.code === 'token_limit_exceeded') {
    const waitS = secondsUntil(denial.retryAt ?? now, now)
    const inVain = waitS > longestRetryAfterS
    return [
      ['retry-after', String(waitS)],
      ...(inVain ? [['x-should-retry', 'false'] as const] : []),
    ]
  }
  if (describe(denial.code).status !== 403) return []
  return [['x-ext-auth-reason', denial.selection ?? 'unauthorized']]
}

/** Whole seconds. */
function writeKeyAge(writer: WireWriter, keyAgeMs: number, field?: number): void {
  writeHeader(writer, 'x-tollgate-key-age', String(Math.floor(keyAgeMs / 1_000)), field)
}

/** HeaderValueOption: header = 1 (key = 1, value = 2), append_action = 3. */
function writeHeader(
  writer: WireWriter,
  name: string,
  value: string,
  field: number = requestHeaders,
): void {
  writer.message(field, () => {
    writer.message(1, () => writer.string(1, name).string(2, value))
    writer.unsigned(3, overwrite)
  })
}
