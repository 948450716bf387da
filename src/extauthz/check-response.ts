/** Decision → `envoy.service.auth.v3.CheckResponse`, as bytes. */

import type { Decision, Denial, Grant } from '../decide/decision.ts'
import { denialMessage } from '../decide/refusal-message.ts'
import { isFinalStatus, retryAfterOutage } from '../formats/errors.ts'
import { bearerChallenge } from '../formats/headers.ts'
import { redactForLog } from '../formats/redact.ts'
import { toTimestamp } from '../formats/time.ts'
import { closeStructText, openStructText, writeStruct, writeStructField } from '../grpc/struct.ts'
import { WireWriter } from '../grpc/wire.ts'
import type { KeyCaller } from '../identity/rules/caller.ts'
import { type Dialect, refusalStatus, toRefusalBody } from '../operations/dialect.ts'
import type { HoldRecord } from '../ratelimit/rules/hold.ts'
import {
  type PutHeader,
  putBindingHeaders,
  putLimitHeaders,
  secondsUntil,
  toRateLimitField,
} from '../ratelimit/rules/limit-headers.ts'
import { headAfterSubject, headBeforeSubject, type LineRequest } from '../usage/rules/line-head.ts'
import {
  type AllowTemplate,
  makeTemplate,
  responseHeaders,
  type TemplateOf,
  writeHeader,
} from './allow-template.ts'
import type { RefusedCheck } from './refused-check.ts'

/** The request, as its line names it; `lane`: the blocks to which its response adds (table/rules/lane.ts). */
export type LinedRequest = Pick<LineRequest, 'id' | 'startedAt'> & {
  readonly lane?: string | undefined
}

/** The data that a response has about the caller's key. */
type KeyNews = Pick<KeyCaller, 'keyAgeMs' | 'endsSoonAt'>

/** google.rpc.Code of a denial. Never 0: Envoy takes a missing or zero code as an allow. */
const grpcCodes: Partial<Record<number, number>> = {
  400: 3,
  401: 16,
  403: 7,
  404: 5,
  429: 8,
  503: 14,
}
const internalCode = 13

/**
 * The clients of OpenAI and Anthropic retry by themselves, but within a minute whatever
 * `retry-after` says. If the wait is longer, `x-should-retry`, their own header, stops them.
 */
const maxRetryAfterS = 60

/**
 * Encodes the response in the caller's dialect. `now` is in milliseconds since the epoch. `key`: what to report about
 * the key, if one was sent. `templateOf` may cache (`createTemplates`). `request`: for the line of its response;
 * without it the response has none.
 */
export function toCheckResponse(
  decision: Decision,
  now: number,
  dialect: Dialect,
  key?: KeyNews,
  templateOf: TemplateOf = makeTemplate,
  request?: LinedRequest,
): Buffer {
  return decision.allowed
    ? allow(decision, templateOf(decision, dialect), now, dialect, key, request)
    : deny(decision, now, dialect, key)
}

/** Every grant is encoded here and copied out. */
const writer = new WireWriter(2_048)
const putAllowed: PutHeader = (name, value) => writeHeader(writer, name, value, responseHeaders)

/** An OkHttpResponse and its metadata are usually at least 128 bytes long. */
const lengthBytes = 2

/**
 * CheckResponse: status = 1, ok_response = 3, dynamic_metadata = 4. OkHttpResponse: headers = 2,
 * headers_to_remove = 5, response_headers_to_add = 6.
 */
function allow(
  grant: Grant,
  template: AllowTemplate,
  now: number,
  dialect: Dialect,
  key: KeyNews | undefined,
  request: LinedRequest | undefined,
): Buffer {
  const { caller, states, keyLimits } = grant
  writer.clear()
  writer.close(writer.open(1))
  const ok = writer.open(3, lengthBytes)
  writer.raw(template.before)
  writeHeader(writer, 'x-tollgate-path', grant.upstreamPath)
  writer.raw(template.after)
  if (grant.held !== undefined) writeCeiling(writer, grant.held)
  if (states.length > 0) {
    putBindingHeaders(dialect, states, now, putAllowed)
    if (states.length === template.limitCount) writer.raw(template.policies)
    else putPolicies(template.policyText, keyLimits?.policies)
    const items = toRateLimitField(states, now)
    if (items !== '') putAllowed('ratelimit', items)
  }
  if (key !== undefined) writeKeyNews(writer, key, responseHeaders)
  writer.close(ok, lengthBytes)
  const metadata = writer.open(4, lengthBytes)
  if (request !== undefined) {
    const { id, startedAt } = request
    const line = openStructText(writer, 'line', lengthBytes)
    writer
      .text(headBeforeSubject({ startedAt, id, by: 'check' }))
      .raw(template.subject)
      .text(
        headAfterSubject({
          user: caller.user,
          keyId: caller.by === 'key' ? caller.keyId : '',
          keyCounters: grant.metered || grant.meteredIfReported ? keyLimits?.counted : undefined,
          pool: grant.pool,
          keyLimits: keyLimits?.charged,
          held: grant.held,
        }),
      )
    closeStructText(writer, line, lengthBytes)
    if (request.lane !== undefined) writeStructField(writer, 'lane', request.lane)
  }
  writer.raw(template.metadata)
  // Makes usage.lua measure a stream's text.
  if (grant.held?.estimate !== undefined) writeStructField(writer, 'estimate', true)
  writer.close(metadata, lengthBytes)
  return writer.take()
}

/** The maximum number of output tokens, for the gateway's script (request-body.lua) and for the client. */
function writeCeiling(writer: WireWriter, { ceiling, choices = 1 }: HoldRecord): void {
  if (ceiling === Number.POSITIVE_INFINITY) return
  writeHeader(writer, 'x-tollgate-ceiling', String(ceiling))
  const each = Math.max(1, Math.floor(ceiling / choices))
  writeHeader(writer, 'x-tollgate-max-output-tokens', String(each), responseHeaders)
}

/** Limits of the subscription and of the key. */
function putPolicies(shared: string, own = ''): void {
  const both = shared !== '' && own !== '' ? `${shared}, ${own}` : shared + own
  if (both !== '') putAllowed('ratelimit-policy', both)
}

/** Lets a request continue so that its body is read; the second Check decides. */
export const authenticatedResponse: Buffer = new WireWriter()
  .message(1, () => {})
  .message(3, () => {})
  .finish()

/** Like `authenticatedResponse`, but the gateway asks again with the size of the body. */
export const unreadResponse: Buffer = new WireWriter()
  .message(1, () => {})
  .message(3, (writer) => writeHeader(writer, 'x-tollgate-again', 'true'))
  .finish()

/** DeniedHttpResponse (2): status = 1, headers = 2, body = 3. */
function deny(denial: Denial, now: number, dialect: Dialect, key: KeyNews | undefined): Buffer {
  const status = refusalStatus(dialect, denial.code)
  const resetsAt = resetIfLate(denial, now)
  const body = toRefusalBody(dialect, denial.code, denialMessage(denial, now), resetsAt)
  const writer = new WireWriter()
  writer.message(1, () => writer.unsigned(1, grpcCodes[status] ?? internalCode))
  writer.message(2, () => {
    writer.message(1, () => writer.unsigned(1, status))
    writeHeader(writer, 'content-type', 'application/json')
    for (const [name, value] of headersOf(denial, status, now, resetsAt))
      writeHeader(writer, name, value)
    putLimitHeaders(dialect, denial.states ?? [], now, (name, value) =>
      writeHeader(writer, name, value),
    )
    if (key !== undefined) writeKeyNews(writer, key)
    writer.string(3, JSON.stringify(body))
  })
  return writer.finish()
}

/** Headers of a refusal besides the caller's limits (contract, 1.2 and 8.1). */
function headersOf(
  denial: Denial,
  status: number,
  now: number,
  resetsAt: number | undefined,
): readonly (readonly [string, string])[] {
  if (status === 429) {
    const waitS = String(secondsUntil(denial.retryAt ?? now, now))
    if (resetsAt === undefined) return [['retry-after', waitS], ...(denial.isBusy ? [shortly] : [])]
    // Some clients sleep for days if retry-after says so, and show nothing meanwhile.
    return denial.code === 'insufficient_quota' ? [noRetry] : [['retry-after', waitS], noRetry]
  }
  if (status === 503) return [['retry-after', retryAfterOutage]]
  if (!isFinalStatus(status)) return []
  if (denial.code === 'credential_invalid') {
    // RFC 6750, 3.1: without a credential, the challenge has no error.
    const reason = denial.detail && denialMessage(denial, now)
    const challenge = reason === undefined ? 'Bearer' : bearerChallenge(reason)
    return [['www-authenticate', challenge], noRetry]
  }
  if (status === 404 && denial.code === 'not_found') return [noRetry]
  return [['x-ext-auth-reason', denial.selection ?? 'unauthorized'], noRetry]
}

/** Without it Claude Code repeats a refused request ten times and shows nothing meanwhile. */
const noRetry = ['x-should-retry', 'false'] as const

const shortly = ['x-should-retry', 'true'] as const

/** When the limit resets, in seconds since the epoch, or undefined if that is soon enough to wait for. */
function resetIfLate({ retryAt }: Denial, now: number): number | undefined {
  if (retryAt === undefined || secondsUntil(retryAt, now) <= maxRetryAfterS) return undefined
  return Math.ceil(retryAt / 1_000)
}

function writeKeyNews(writer: WireWriter, { keyAgeMs, endsSoonAt }: KeyNews, field?: number): void {
  if (keyAgeMs !== undefined) {
    writeHeader(writer, 'x-tollgate-key-age', String(Math.floor(keyAgeMs / 1_000)), field)
  }
  if (endsSoonAt !== undefined) {
    writeHeader(writer, 'x-tollgate-key-expires', toTimestamp(endsSoonAt), field)
  }
}

/**
 * The CheckResponse with its decision in the dynamic metadata (field 4, which parsers merge with
 * existing metadata), and the model and subscription.
 */
export function tagSpan(
  response: Buffer,
  decision: Decision,
  asked: Pick<RefusedCheck, 'caller' | 'model' | 'subscription'>,
): Buffer {
  const writer = new WireWriter()
  if (decision.allowed) {
    const { subscription, model } = decision
    writeStruct(writer, 4, { decision: 'allowed', subscription, model: model.key })
  } else {
    writeStruct(writer, 4, { decision: decision.code, ...namedBy(asked) })
  }
  return Buffer.concat([response, writer.finish()])
}

/** The model and the subscription that a refusal names, if any. */
export function namedBy({
  caller,
  model,
  subscription,
}: Pick<RefusedCheck, 'caller' | 'model' | 'subscription'>) {
  const paying = caller?.by === 'key' ? caller.subscription : subscription
  return {
    ...(paying !== undefined && { subscription: redactForLog(paying) }),
    ...(model !== undefined && { model: redactForLog(model) }),
  }
}
