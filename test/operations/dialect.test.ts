import { test } from 'tap'
import { errorBody, errorEntry } from '../../src/formats/errors.ts'
import { dialectOf, toRefusalBody } from '../../src/operations/dialect.ts'

test('the path determines the dialect', async (t) => {
  for (const operation of ['/v1/messages', '/v1/messages/', '/v1/messages/count_tokens']) {
    t.equal(dialectOf(operation), 'anthropic', operation)
  }
  for (const operation of ['/v1/chat/completions', '/v1/messagesx', '/v1/message', '/v1', '']) {
    t.equal(dialectOf(operation), 'openai', operation)
  }
  t.equal(dialectOf(undefined), 'openai')
})

test('an OpenAI error is the envelope', async (t) => {
  t.strictSame(toRefusalBody('openai', 'not_found', 'Gone.'), errorBody('not_found', 'Gone.'))
  t.strictSame(toRefusalBody('openai', 'internal'), errorBody('internal'))
})

test('an Anthropic error has a type of its own', async (t) => {
  for (const [code, type] of [
    ['invalid_body', 'invalid_request_error'],
    ['model_ambiguous', 'invalid_request_error'],
    ['credential_invalid', 'authentication_error'],
    ['model_not_allowed', 'not_found_error'],
    ['subscription_not_allowed', 'permission_error'],
    ['not_found', 'not_found_error'],
    ['method_not_allowed', 'invalid_request_error'],
    ['body_too_large', 'request_too_large'],
    ['token_limit_exceeded', 'rate_limit_error'],
    ['insufficient_quota', 'rate_limit_error'],
    ['internal', 'api_error'],
    ['store_unavailable', 'overloaded_error'],
    ['counters_unavailable', 'overloaded_error'],
    ['model_unavailable', 'overloaded_error'],
  ] as const) {
    t.strictSame(
      toRefusalBody('anthropic', code),
      { type: 'error', error: { type, message: errorEntry(code).message } },
      code,
    )
  }
  t.match(toRefusalBody('anthropic', 'internal', 'Say more.'), { error: { message: 'Say more.' } })
})
