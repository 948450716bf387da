import { test } from 'tap'
import { errorBody, errorEntry, ServiceError } from '../../src/formats/errors.ts'

test('each status has its error type', async (t) => {
  for (const [code, status, type] of [
    ['invalid_request', 400, 'invalid_request_error'],
    ['invalid_body', 400, 'invalid_request_error'],
    ['invalid_lifetime', 400, 'invalid_request_error'],
    ['model_ambiguous', 400, 'invalid_request_error'],
    ['subscription_pending', 400, 'invalid_request_error'],
    ['credential_invalid', 401, 'authentication_error'],
    ['identity_token_required', 403, 'permission_error'],
    ['invalid_subscription', 403, 'permission_error'],
    ['subscription_not_ready', 403, 'permission_error'],
    ['model_not_allowed', 403, 'permission_error'],
    ['subscription_not_allowed', 403, 'permission_error'],
    ['not_found', 404, 'not_found_error'],
    ['method_not_allowed', 405, 'invalid_request_error'],
    ['body_too_large', 413, 'invalid_request_error'],
    ['token_limit_exceeded', 429, 'tokens'],
    ['insufficient_quota', 429, 'usage_limit_reached'],
    ['too_many_requests', 429, 'rate_limit_error'],
    ['internal', 500, 'server_error'],
    ['store_unavailable', 503, 'server_error'],
    ['counters_unavailable', 503, 'server_error'],
    ['identity_unavailable', 503, 'server_error'],
    ['model_unavailable', 503, 'server_error'],
  ] as const) {
    t.match(errorEntry(code), { status, type, message: /\.$/ }, code)
    t.match(errorBody(code), { error: { type, message: errorEntry(code).message } })
  }
})

test('the envelope has three fields', async (t) => {
  t.strictSame(errorBody('not_found', 'No such key.'), {
    error: { message: 'No such key.', type: 'not_found_error', code: 'not_found' },
  })
})

test('both readiness refusals have the same code', async (t) => {
  t.equal(errorBody('subscription_pending').error.code, 'subscription_not_ready')
  t.equal(errorBody('subscription_not_ready').error.code, 'subscription_not_ready')
})

test('a spent limit is reported as OpenAI does', async (t) => {
  t.match(errorBody('token_limit_exceeded'), {
    error: { type: 'tokens', code: 'rate_limit_exceeded' },
  })
})

test('the subscription refusal mentions access', async (t) => {
  t.match(errorEntry('subscription_not_allowed').message, /no access to the subscription/)
})

test('the cause is not part of the message', async (t) => {
  const error = new ServiceError('store_unavailable', { cause: new Error('password=secret') })
  t.equal(error.message, errorEntry('store_unavailable').message)
  t.match(error, { name: 'ServiceError', code: 'store_unavailable', cause: /secret/ })
  t.equal(new ServiceError('invalid_request', { message: 'Say more.' }).message, 'Say more.')
})
