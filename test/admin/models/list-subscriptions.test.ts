import { test } from 'tap'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createListApi, type ListApi } from '../../support/list-api.ts'
import { refused } from '../../support/refusals.ts'

const team = { groups: ['team-a'] }
const rate = [[100, '1m']] as const

const rich = subscription('rich', team, { 'llm/small': [...rate, [1_000, '24h']] }, { priority: 7 })
rich.metadata.annotations = {
  'openshift.io/display-name': 'Rich',
  'openshift.io/description': 'For the rich',
}
rich.spec.tokenMetadata = { organizationId: 'org', costCenter: '42', labels: { a: 'b' } }
const [billed] = rich.spec.modelRefs as [Record<string, unknown>]
billed.billingRate = { perToken: '0.5' }

const shown = subscription('shown', team, { 'llm/large': rate }, { priority: -3 })
shown.metadata.annotations = { 'openshift.io/display-name': 'Shown' }

const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  modelRef('small', {}, 'other'),
  shown,
  rich,
  subscription('partly', team, { 'other/small': rate, 'llm/ghost': rate }),
  subscription('by-user', { users: ['alice'] }, { 'llm/large': rate }),
  subscription('theirs', { groups: ['team-b'] }, { 'llm/small': rate }),
  subscription('broken', team, { 'llm/ghost': rate }),
  subscription('leaving', team, { 'llm/small': rate }, { deleting: true }),
)

const paths = ['/v1/subscriptions', '/v1/model/small/subscriptions']

function ask(api: ListApi, url: string, credential?: string, headers: object = {}) {
  const authorization = credential === undefined ? {} : { authorization: `Bearer ${credential}` }
  return api.external.inject({ url, headers: { ...authorization, ...headers } })
}

async function namesAt(api: ListApi, url: string, credential = 'alice', headers: object = {}) {
  const answer = await ask(api, url, credential, headers)
  t200(answer.statusCode)
  return answer.json().map((entry: Record<string, string>) => entry.subscription_id_header)
}

function t200(status: number): void {
  if (status !== 200) throw new Error(`status ${status}`)
}

test('returns a bare list, ordered by name (200)', async (t) => {
  const api = await createListApi(t, { snapshot })
  t.same(await namesAt(api, '/v1/subscriptions'), ['by-user', 'partly', 'rich', 'shown'])
  t.same(await namesAt(api, '/v1/subscriptions', 'bob'), ['theirs'])
  t.same(await namesAt(api, '/v1/subscriptions', 'stranger'), [])
  t.same(await namesAt(api, '/v1/subscriptions', 'sk-alice/rich'), [
    'by-user',
    'partly',
    'rich',
    'shown',
  ])
})

test('an entry has all fields of its subscription', async (t) => {
  const api = await createListApi(t, { snapshot })
  const [byUser, partly, whole, named] = (await ask(api, '/v1/subscriptions', 'alice')).json()
  t.strictSame(whole, {
    subscription_id_header: 'rich',
    subscription_description: 'For the rich',
    display_name: 'Rich',
    priority: 7,
    model_refs: [
      {
        name: 'small',
        namespace: 'llm',
        token_rate_limits: [
          { limit: 100, window: '1m' },
          { limit: 1_000, window: '24h' },
        ],
        billing_rate: { per_token: '0.5' },
        source: 'internal',
        accessible: false,
      },
    ],
    organization_id: 'org',
    cost_center: '42',
    labels: { a: 'b' },
  })
  t.strictSame(byUser, {
    subscription_id_header: 'by-user',
    subscription_description: 'by-user',
    priority: 0,
    model_refs: [
      {
        name: 'large',
        namespace: 'llm',
        token_rate_limits: [{ limit: 100, window: '1m' }],
        source: 'internal',
        accessible: false,
      },
    ],
  })
  t.match(named, { subscription_description: 'Shown', display_name: 'Shown', priority: 0 })
  t.equal(partly.model_refs.length, 2)
})

test('a model is shown with its texts, source and whether it is open to the caller', async (t) => {
  const small = modelRef('small')
  small.metadata.annotations = {
    'openshift.io/display-name': 'Small',
    'openshift.io/description': 'A small one',
  }
  const hosted = modelRef('hosted', { modelRef: { kind: 'ExternalModel', name: 'hosted' } })
  const api = await createListApi(t, {
    snapshot: snapshotOf(
      small,
      hosted,
      accessPolicy('open', ['llm/small'], { users: ['alice'] }),
      subscription(
        'all',
        { groups: ['team-a', 'team-b'] },
        {
          'llm/small': rate,
          'llm/hosted': rate,
          'llm/ghost': rate,
        },
      ),
    ),
  })
  const limits = { namespace: 'llm', token_rate_limits: [{ limit: 100, window: '1m' }] }
  const texts = { display_name: 'Small', description: 'A small one', source: 'internal' }
  for (const [user, accessible] of [
    ['alice', true],
    ['bob', false],
  ] as const) {
    for (const path of paths) {
      const [{ model_refs }] = (await ask(api, path, user)).json()
      t.strictSame(model_refs, [
        { name: 'small', ...limits, ...texts, accessible },
        { name: 'hosted', ...limits, source: 'external', accessible: false },
        { name: 'ghost', ...limits, accessible: false },
      ])
    }
  }
})

test('a model has the subscriptions that cover it', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const [model, expected] of [
    ['small', ['partly', 'rich']],
    ['large', ['by-user', 'shown']],
    ['ghost', []],
    ['unknown', []],
    ['llm%2Fsmall', []],
    ['%00', []],
    ['__proto__', []],
  ] as const) {
    t.same(await namesAt(api, `/v1/model/${model}/subscriptions`), expected, model)
  }
})

test('identity headers are ignored', async (t) => {
  const api = await createListApi(t, { snapshot })
  const forged = { 'x-maas-username': 'alice', 'x-maas-group': '["team-a"]' }
  t.same(await namesAt(api, '/v1/subscriptions', 'bob', forged), ['theirs'])
  t.same(await namesAt(api, '/v1/model/small/subscriptions', 'stranger', forged), [])
  for (const path of paths) refused(t, await ask(api, path, undefined, forged), 401)
})

test('an invalid path is not found (404)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const id of ['%zz', 'x'.repeat(600), 'a/b']) {
    refused(t, await ask(api, `/v1/model/${id}/subscriptions`, 'alice'), 404, 'not_found')
  }
})

test('other methods are answered (204, 405)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const url of paths) {
    const options = await api.external.inject({ method: 'OPTIONS', url })
    t.equal(options.statusCode, 204)
    t.equal(options.headers.allow, 'GET, HEAD, OPTIONS')
    refused(t, await api.external.inject({ method: 'DELETE', url }), 405, 'method_not_allowed')
  }
})

test('faults and outages are answered in the error envelope (500, 503)', async (t) => {
  const api = await createListApi(t)
  for (const path of paths) {
    refused(t, await ask(api, path, 'alice'), 500, 'internal', path)
    refused(t, await ask(api, path, 'outage'), 503, 'store_unavailable', path)
  }
})
