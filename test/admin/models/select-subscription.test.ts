import { test } from 'tap'
import { modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createListApi, type ListApi } from '../../support/list-api.ts'
import { refused } from '../../support/refusals.ts'

const rate = [[100, '1m']] as const
const team = { groups: ['team-a'] }
const basic = subscription('basic', team, { 'llm/small': rate }, { priority: 3 })
basic.metadata.annotations = { 'openshift.io/display-name': 'Basic' }
basic.spec.tokenMetadata = { organizationId: 'org', costCenter: '42', labels: { a: 'b' } }
const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  basic,
  subscription('large', team, { 'llm/large': rate }),
  subscription('partly', { users: ['carol'] }, { 'llm/small': rate, 'llm/ghost': rate }),
  subscription('broken', { users: ['dave'] }, { 'llm/ghost': rate }),
  subscription('leaving', { users: ['erin'] }, { 'llm/small': rate }, { deleting: true }),
  subscription('theirs', { groups: ['team-b'] }, { 'llm/small': rate }),
)

async function select(api: ListApi, body: unknown) {
  const answer = await api.internal.inject({
    method: 'POST',
    url: '/internal/v1/subscriptions/select',
    ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${answer.body}`)
  return answer.json()
}

const ada = { username: 'ada', groups: [' team-a '] }

test('the selected subscription is returned with all fields (200)', async (t) => {
  const api = await createListApi(t, { snapshot })
  t.strictSame(
    await select(api, {
      ...ada,
      requestedSubscription: 'models-as-a-service/basic',
      requestedModel: 'llm/small',
    }),
    {
      name: 'basic',
      namespace: 'models-as-a-service',
      displayName: 'Basic',
      priority: 3,
      modelRefs: [
        { name: 'small', namespace: 'llm', token_rate_limits: [{ limit: 100, window: '1m' }] },
      ],
      organizationId: 'org',
      costCenter: '42',
      labels: { a: 'b' },
      phase: 'Active',
      ready: true,
    },
  )
  t.notHas(await select(api, { ...ada, requestedSubscription: 'large' }), { priority: Number })
})

test('each request gets the documented answer', async (t) => {
  const api = await createListApi(t, { snapshot })
  const carol = { username: 'carol', groups: null }
  for (const [request, expected] of [
    [{ ...ada, requestedModel: 'llm/small' }, { name: 'basic' }],
    [{ ...ada, requestedModel: 'llm/small', requestedSubscription: '  ' }, { name: 'basic' }],
    [{ ...ada, requestedSubscription: 'basic' }, { name: 'basic' }],
    [{ username: 'bob', groups: ['team-b'] }, { name: 'theirs' }],
    [carol, { name: 'partly', phase: 'Degraded', ready: false }],
    [
      { ...carol, requestedModel: 'llm/small' },
      { name: 'partly', phase: 'Degraded' },
    ],
    [
      { username: 'erin', requestedSubscription: 'leaving', requestedModel: 'llm/small' },
      { name: 'leaving', deletionTimestamp: '2026-01-01T00:00:00Z' },
    ],
    [{ username: 'nobody' }, { error: 'not_found', phase: '', ready: false }],
    [{ ...ada, requestedModel: 'llm/ghost' }, { error: 'not_found' }],
    [{ ...ada, requestedModel: 'small' }, { error: 'not_found' }],
    [{ ...ada, requestedSubscription: 'none' }, { error: 'not_found' }],
    [{ ...ada, requestedSubscription: 'llm/basic' }, { error: 'not_found' }],
    [{ ...ada, requestedSubscription: '__proto__' }, { error: 'not_found' }],
    [
      { ...ada, requestedSubscription: 'theirs' },
      { error: 'access_denied', phase: '' },
    ],
    [ada, { error: 'multiple_subscriptions', phase: '', ready: false }],
    [
      { ...ada, requestedSubscription: 'basic', requestedModel: 'llm/large' },
      { error: 'model_not_in_subscription' },
    ],
    [
      { ...ada, requestedSubscription: 'basic', requestedModel: 'small' },
      { error: 'model_not_in_subscription' },
    ],
    [
      { ...carol, requestedSubscription: 'partly', requestedModel: 'llm/ghost' },
      { error: 'model_unhealthy', phase: 'Degraded', ready: false },
    ],
    [
      { username: 'dave', requestedSubscription: 'broken' },
      { error: 'model_unhealthy', phase: 'Failed' },
    ],
    [{ username: 'dave' }, { error: 'model_unhealthy', phase: 'Failed' }],
    [{ username: 'erin' }, { error: 'model_unhealthy', phase: 'Active' }],
  ] as const) {
    const answer = await select(api, request)
    t.match(answer, expected, JSON.stringify(request))
    t.equal('message' in answer, 'error' in answer, 'a refusal has a message')
  }
})

test('a malformed body is a bad request (200)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const body of [
    undefined,
    '{',
    '[]',
    'null',
    {},
    { username: '' },
    { username: ' ' },
    { username: 1 },
    { username: 'ada', groups: 'team-a' },
    { username: 'ada', groups: [1] },
    { username: 'ada', requestedModel: {} },
    { username: 'x'.repeat(1_048_576) },
  ]) {
    t.match(await select(api, body), { error: 'bad_request', phase: '', ready: false })
  }
})

test('a fault is reported in the answer (200)', async (t) => {
  const api = await createListApi(t)
  t.strictSame(await select(api, ada), {
    phase: '',
    ready: false,
    error: 'internal_error',
    message: 'Something went wrong on our side.',
  })
})

test('the endpoint exists only on the internal listener (404)', async (t) => {
  const api = await createListApi(t, { snapshot })
  for (const url of ['/internal/v1/subscriptions/select', '/maas-api/internal/v1/resources']) {
    const headers = { authorization: 'Bearer alice' }
    refused(t, await api.external.inject({ method: 'POST', url, headers, payload: ada }), 404)
  }
  const wrong = { method: 'GET', url: '/internal/v1/subscriptions/select' } as const
  refused(t, await api.internal.inject(wrong), 405, 'method_not_allowed')
})
