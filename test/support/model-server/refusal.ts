/** Refusals in the format of OpenAI's API. */

import type { Json } from './dialect.ts'

/** Thrown to answer with an HTTP status of 400 or above and an OpenAI error body. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

/**
 * The body of a refusal. `type: "error"` at the top is Anthropic's, which OpenAI's clients
 * ignore, so one body serves both.
 */
export function toErrorBody(status: number, code: string, message: string): Json {
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  return { type: 'error', error: { message, type, param: null, code } }
}
