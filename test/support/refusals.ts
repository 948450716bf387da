import type { LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import type { ApiKeyTable } from '../../src/keys/store.ts'

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  409: 'invalid_request_error',
  413: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'server_error',
  503: 'server_error',
}

/** Claims that an answer is this refusal, in the error envelope and without internal details. */
export function refused(
  t: Test,
  answer: LightMyRequestResponse,
  status: number,
  code?: string,
  about = '',
): void {
  t.equal(answer.statusCode, status, `${about} ${answer.body}`)
  t.match(answer.headers['content-type'], /^application\/json/)
  const { error, ...others } = answer.json()
  t.strictSame(others, {})
  t.same(Object.keys(error).sort(), ['code', 'message', 'type'])
  t.equal(error.type, types[status], about)
  if (code !== undefined) t.equal(error.code, code, about)
  t.match(error.message, /^[^\n]{5,200}\.$/)
  t.notMatch(
    answer.body,
    /JSON at|Unexpected token|syntax error|relation|api_keys_|node_modules|FST_|PostgresError|ECONN/,
    about,
  )
  const challenge = answer.headers['www-authenticate']
  if (status !== 401) t.equal(challenge, undefined)
  else t.match(challenge, /^Bearer( error="invalid_token", error_description="[^"\\]+")?$/)
  if (status === 503 || status === 429) t.match(answer.headers['retry-after'], /^\d+$/)
}

/** The store with these methods failing, by an internal fault or because it is unavailable. */
export function failing(
  how: 'fault' | 'outage',
  ...methods: readonly (keyof ApiKeyTable)[]
): (store: ApiKeyTable) => ApiKeyTable {
  const fail = async (): Promise<never> => {
    throw how === 'fault'
      ? new Error('relation "api_keys" does not exist')
      : new ServiceError('store_unavailable', { cause: new Error('ECONNREFUSED') })
  }
  return (store) => ({ ...store, ...Object.fromEntries(methods.map((name) => [name, fail])) })
}
