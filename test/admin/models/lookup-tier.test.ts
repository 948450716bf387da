import { test } from 'tap'
import { resourceOf, snapshotOf } from '../../support/documents.ts'
import { createListApi, type ListApi } from '../../support/list-api.ts'
import { refused } from '../../support/refusals.ts'

const mapping = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'tier-to-group-mapping' },
  data: {
    tiers: [
      { name: 'free', level: 0, displayName: 'Free', groups: ['system:authenticated'] },
      { name: 'premium', level: 1, groups: ['premium-group'] },
    ],
  },
}
const snapshot = snapshotOf(mapping)

function ask(api: ListApi, payload: unknown, credential = 'alice', headers: object = {}) {
  return api.external.inject({
    method: 'POST',
    url: '/v1/tiers/lookup',
    headers: { ...(credential && { authorization: `Bearer ${credential}` }), ...headers },
    ...(payload !== undefined && {
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    }),
  })
}

test('returns the highest tier of the groups (200)', async (t) => {
  const api = await createListApi(t, { snapshot })
  const free = await ask(api, { groups: ['system:authenticated', 'x'] })
  t.equal(free.statusCode, 200)
  t.strictSame(free.json(), { tier: 'free', displayName: 'Free' })
  for (const groups of [
    ['premium-group', 'system:authenticated'],
    ['system:serviceaccounts:gate-tier-premium'],
  ]) {
    const answer = await ask(api, { groups, username: 'ignored' }, 'sk-stranger/any')
    t.strictSame(answer.json(), { tier: 'premium', displayName: 'premium' })
  }
})

test('groups must be a list of strings (400)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const body of [
    undefined,
    '',
    'groups',
    '{"groups":["a"]} x',
    '[]',
    'null',
    {},
    { groups: null },
    { groups: [] },
    { groups: 'free' },
    { groups: [1] },
    { groups: [null] },
    { Groups: ['a'] },
  ]) {
    refused(t, await ask(api, body), 400, 'bad_request', JSON.stringify(body))
  }
})

test('the message of a 400 says what is wrong with the body', async (t) => {
  const api = await createListApi(t, { snapshot })
  const names = Array.from({ length: 300 }, (_, i) => `"x${i}":true`)
  for (const [body, message] of [
    ['{"groups":["a"]', /^The body is not valid JSON\.$/],
    [`{"groups":["a"],${names}}`, /^The body has more than 300 fields\.$/],
    [{ groups: [] }, /^groups must be a list of at least one string\.$/],
  ] as const) {
    t.match((await ask(api, body)).json(), { error: { code: 'bad_request', message } })
  }
})

test('groups without a tier are not found (404)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const group of ['other', '', 'Premium-group', ' premium-group', 'premium', '__proto__']) {
    refused(t, await ask(api, { groups: [group] }), 404, 'not_found', group)
  }
})

test('without a mapping the answer is an error (500)', async (t) => {
  const api = await createListApi(t, { snapshot: snapshotOf() })
  refused(t, await ask(api, { groups: ['premium-group'] }), 500, 'internal_error')
  refused(t, await ask(api, {}), 400, 'bad_request')
  api.snapshot = undefined
  refused(t, await ask(api, { groups: ['premium-group'] }), 500, 'internal')
})

test('an outage is answered in the error envelope (503)', async (t) => {
  const api = await createListApi(t, { snapshot })
  refused(t, await ask(api, { groups: ['premium-group'] }, 'outage'), 503, 'store_unavailable')
})

test('the mapping is a resource like the others', async (t) => {
  t.match(resourceOf(mapping), { kind: 'ConfigMap', metadata: { name: 'tier-to-group-mapping' } })
})
