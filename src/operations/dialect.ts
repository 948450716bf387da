/**
 * The format of a refusal. Clients of OpenAI and of Anthropic each expect one error body. Their
 * libraries decide by it, and by the headers of `limit-headers.ts`, when to retry.
 */

import { type ErrorCode, type ErrorEnvelope, errorBody, errorEntry } from '../formats/errors.ts'
import { meterable } from './operations.ts'

export type Dialect = 'openai' | 'anthropic'

/** The body of every refusal for Anthropic's clients. */
interface AnthropicEnvelope {
  readonly type: 'error'
  readonly error: { readonly type: string; readonly message: string }
}

/** Anthropic's error type for a status. Its own 529 (overloaded) corresponds to 503 here. */
const anthropicTypes: Partial<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
}

/**
 * The dialect of a model server's path, `/v1/…`; OpenAI's by default. Paths below Anthropic's
 * (`…/count_tokens`, `…/batches`) are Anthropic's as well.
 */
export function dialectOf(operation: string | undefined): Dialect {
  if (operation === undefined || !operation.startsWith(meterable.messages)) return 'openai'
  const next = operation[meterable.messages.length]
  return next === undefined || next === '/' ? 'anthropic' : 'openai'
}

/**
 * The HTTP status of a code. Claude Code asks for another model after a 404, which Anthropic also returns for an
 * unknown one; after a 403 it asks for another key.
 */
export function refusalStatus(dialect: Dialect, code: ErrorCode): number {
  if (dialect === 'anthropic' && code === 'model_not_allowed') return 404
  return errorEntry(code).status
}

/**
 * The body for a code, with the catalogue's message by default. `resetsAt` is the time at which the caller may try
 * again, in seconds since the epoch, if a client should not wait for it.
 */
export function toRefusalBody(
  dialect: Dialect,
  code: ErrorCode,
  message?: string,
  resetsAt?: number,
): ErrorEnvelope | AnthropicEnvelope {
  if (dialect === 'openai') {
    // Clients take insufficient_quota as final: where they may wait, a budget is refused like any limit.
    if (resetsAt === undefined && code === 'insufficient_quota') {
      return errorBody('token_limit_exceeded', message ?? errorEntry(code).message)
    }
    const { error } = errorBody(code, message)
    if (resetsAt === undefined) return { error }
    // Codex sleeps for the whole of retry-after unless the error has this type and time.
    return { error: { ...error, type: 'usage_limit_reached', resets_at: resetsAt } }
  }
  const type = anthropicTypes[refusalStatus(dialect, code)] ?? 'api_error'
  return { type: 'error', error: { type, message: message ?? errorEntry(code).message } }
}
