import { test } from 'tap'
import type { DenialDetail } from '../../src/decide/decision.ts'
import { denialMessage } from '../../src/decide/refusal-message.ts'

const now = 1_000_000

test('each detail has its message', async (t) => {
  const told = (detail: DenialDetail) =>
    denialMessage({ allowed: false, code: 'invalid_request', detail }, now)
  for (const [detail, message] of [
    [{ about: 'identity_token' }, 'Inference needs an API key; an identity token is not one.'],
    [{ about: 'query' }, 'The query must not hold the path of another operation.'],
    [{ about: 'path' }, 'The path is malformed.'],
    [
      { about: 'long', part: 'path', max: 1_024 },
      "The path after the model's name must not have more than 1024 characters.",
    ],
    [
      { about: 'long', part: 'query', max: 4_096 },
      'The query must not have more than 4096 characters.',
    ],
    [{ about: 'spelling', path: '/v1/messages' }, 'Write the path as /v1/messages.'],
    [{ about: 'unserved' }, 'This operation is not served.'],
    [
      {
        about: 'uncounted',
        operation: '/v1/responses',
        method: 'POST',
        open: ['/v1/messages', '/v1/embeddings'],
      },
      'POST /v1/responses may return text that is not counted, so it is closed here; ' +
        'use POST /v1/messages or /v1/embeddings.',
    ],
    [
      { about: 'override' },
      'The query must not name another method; send the request with that method.',
    ],
    [
      { about: 'field', field: 'model' },
      'The query must not have "model"; write it into the body.',
    ],
    [
      { about: 'path_needed', operation: '/v1/files' },
      'Name the model in the path: /<namespace>/<model>/v1/files.',
    ],
    [
      { about: 'path_needed', operation: '/v1/embeddings', method: 'GET' },
      'Name the model in the path: /<namespace>/<model>/v1/embeddings. GET has no body that could name it.',
    ],
    [{ about: 'body', problem: 'it is broken' }, 'The request body is refused: it is broken.'],
    [
      { about: 'body', problem: undefined },
      'The body must be a JSON object whose "model" names a model.',
    ],
    [
      { about: 'model', name: 'gpt-5' },
      'The model "gpt-5" does not exist or you have no access to it; GET /v1/models lists yours.',
    ],
    [
      {
        about: 'ambiguous',
        paths: ['/a/m/v1/x', '/b/m/v1/x'],
        areMore: false,
        isListed: false,
      },
      'Several models have this name; use /a/m/v1/x or /b/m/v1/x.',
    ],
  ] as const) {
    t.equal(told(detail), message)
  }
  t.equal(denialMessage({ allowed: false, code: 'not_found' }, now), undefined)
})

test('a quoted name is bounded, in one line, and shows what is hidden', async (t) => {
  const quoted = (name: string) =>
    /^The model (.*) does not exist or/s.exec(
      denialMessage(
        { allowed: false, code: 'model_not_allowed', detail: { about: 'model', name } },
        now,
      ) ?? '',
    )?.[1]
  t.equal(quoted('a"b\\c'), String.raw`"a\"b\\c"`)
  t.equal(quoted('a\nb\u202e\u2028c\u0085'), String.raw`"a\nb\u{202e}\u{2028}c\u{85}"`)
  t.equal(quoted('x'.repeat(60_000)), `"${'x'.repeat(100)}…"`)
  t.equal(quoted('\ud83d'), '"\ufffd"')
  t.equal(
    quoted(`sk-tg-0123456789abcdef_${'s'.repeat(43)}`),
    '"[redacted]"',
    'a key in the wrong place',
  )
  t.equal(quoted('größe/模型'), '"größe/模型"')
})

test('a subscription that does not pay is named, and one that would', async (t) => {
  const told = (detail: object) =>
    denialMessage(
      {
        allowed: false,
        code: 'subscription_not_allowed',
        detail: { about: 'subscription', ...detail } as DenialDetail,
      },
      now,
    )
  const named = { by: 'key', name: 'basic' }
  for (const [detail, message] of [
    [
      { error: 'model_not_in_subscription', named, other: 'premium' },
      '"basic" pays for this API key and does not include it. ' +
        'Your subscription "premium" includes it; create an API key for that one.',
    ],
    [
      { error: 'access_denied', named, other: undefined },
      '"basic" pays for this API key and is not yours. None of your other subscriptions pays for it.',
    ],
    [
      { error: 'not_found', named, other: undefined },
      '"basic" pays for this API key and is not in force, or does not exist any more. ' +
        'None of your other subscriptions pays for it.',
    ],
    [
      { error: 'not_found', named: { by: 'key', name: '' }, other: undefined },
      'no subscription is bound to this API key. None of your other subscriptions pays for it.',
    ],
    [
      { error: 'access_denied', named: { by: 'token' }, other: 'premium' },
      'the one in x-maas-subscription is not yours. ' +
        'Your subscription "premium" includes it; name it in the header.',
    ],
    [
      { error: 'not_found', named: undefined, other: undefined },
      'none of yours includes it and is ready.',
    ],
  ] as const) {
    t.equal(told(detail), `You have no access to the subscription for this model: ${message}`)
  }
})
