import { test } from 'tap'
import type { LimitState } from '../../src/core/counter.ts'
import type { DenialDetail } from '../../src/core/decide.ts'
import { messageOf } from '../../src/extauthz/refusal-message.ts'

const now = 1_000_000

test('each detail has its message', async (t) => {
  const told = (detail: DenialDetail) =>
    messageOf({ allowed: false, code: 'invalid_request', detail }, now)
  for (const [detail, message] of [
    [{ about: 'identity_token' }, 'Inference needs an API key; an identity token is not one.'],
    [{ about: 'query' }, 'The query must not hold the path of another operation.'],
    [{ about: 'path' }, 'The path is malformed.'],
    [{ about: 'spelling', path: '/v1/messages' }, 'Write the path as /v1/messages.'],
    [{ about: 'unserved' }, 'This operation is not served.'],
    [
      { about: 'uncounted', operation: '/v1/responses', open: ['/v1/messages', '/v1/embeddings'] },
      'Tokens of /v1/responses are not counted, so it is closed here; use /v1/messages or /v1/embeddings.',
    ],
    [
      { about: 'path_needed', operation: '/v1/files' },
      'Name the model in the path: /<namespace>/<model>/v1/files.',
    ],
    [{ about: 'body', problem: 'it is broken' }, 'The request body is refused: it is broken.'],
    [
      { about: 'body', problem: undefined },
      'The body must be a JSON object whose "model" names a model.',
    ],
    [
      { about: 'ambiguous', paths: ['/a/m/v1/x', '/b/m/v1/x'] },
      'Several models have this name; use /a/m/v1/x or /b/m/v1/x.',
    ],
  ] as const) {
    t.equal(told(detail), message)
  }
  t.equal(messageOf({ allowed: false, code: 'not_found' }, now), undefined)
})

test('the message of an exhausted limit gives its figures', async (t) => {
  const state = (used: number): LimitState =>
    ({ limit: { limit: 100, window: '1m' }, used, resetsAt: now + 5_000 }) as LimitState
  const denial = { allowed: false, code: 'token_limit_exceeded', retryAt: now + 5_000 } as const
  t.equal(
    messageOf({ ...denial, states: [state(107)] }, now),
    'The token limit of your subscription for this model is used up: ' +
      '107 of 100 tokens in 1m. Please try again in 5s.',
  )
})
