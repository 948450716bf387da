import { test } from 'tap'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const route = 'GET /v1/admin/access'
const open = {
  ...{ kind: 'AccessPolicy', namespace: 'models-as-a-service', name: 'open' },
  ...{ file: 'AccessPolicy/models-as-a-service/open.yaml', line: 1 },
}
const ofModels = { requestRateLimits: [{ limit: 6, window: '1h' }], concurrency: 2 }
const hostile = '<img src=x onerror=alert(1)>'

test('who can use a model, and through what', async (t) => {
  const snapshot = snapshotOf(
    modelRef('small'),
    accessPolicy('open', ['llm/small'], { groups: ['team-a'], users: [hostile] }),
    subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[50, '1m']] }, { ofModels }),
  )
  const api = await createKeyApi(t, { snapshot })
  const read = async (query = '') => (await api.ask(`${route}${query}`, { as: 'admin' })).json()
  t.strictSame(await read(), {
    object: 'list',
    data: [
      {
        ...{ model: 'llm/small', subject_kind: 'group', subject: 'team-a', usable: true },
        policies: [open],
        subscriptions: [
          {
            ...{ kind: 'Subscription', namespace: 'models-as-a-service', name: 'basic' },
            ...{ file: 'Subscription/models-as-a-service/basic.yaml', line: 1 },
            ...{ pays: true, limits: [{ limit: 50, window: '1m' }] },
            ...{ request_rate_limits: [{ limit: 6, window: '1h' }], concurrency: 2 },
          },
        ],
      },
      {
        ...{ model: 'llm/small', subject_kind: 'user', subject: hostile, usable: false },
        policies: [open],
        subscriptions: [],
      },
    ],
    has_more: false,
  })
  t.match(await read('?model=small&subject=team-a&limit=1'), { data: { length: 1 } })
  t.match(await read('?limit=1'), { data: { length: 1 }, has_more: true })
  t.match(await read('?model=&subject='), { data: { length: 2 } })
  t.match(await read('?model=llm/nothing'), { data: { length: 0 } })
  for (const query of ['offset=x', 'model=a&model=b', `subject=${'x'.repeat(1_025)}`]) {
    refused(t, await api.ask(`${route}?${query}`, { as: 'admin' }), 400, undefined, query)
  }
})

test('limits by name are named, and no limits of each user', async (t) => {
  const named = [
    { name: 'together', of: 'concurrency', limit: 9, per: 'subscription' },
    { name: 'month', limit: 10, window: 'month', enforce: false },
  ]
  const snapshot = snapshotOf(
    modelRef('small', { limits: [{ name: 'fair', limit: 5, window: '1h', per: 'model' }] }),
    subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[50, '1m']] }, { named }),
  )
  const api = await createKeyApi(t, { snapshot })
  const { data } = (await api.ask(route, { as: 'admin' })).json()
  const [{ limits, concurrency, limit_names: names }] = data[0].subscriptions
  t.strictSame(
    [limits, concurrency, names],
    [[{ limit: 50, window: '1m' }], undefined, ['fair', 'together', 'month']],
  )
})

test('an entry has a bounded number of resources', async (t) => {
  const names = Array.from({ length: 23 }, (_, at) => `p-${String(at).padStart(2, '0')}`)
  const api = await createKeyApi(t, {
    snapshot: snapshotOf(
      modelRef('small'),
      ...names.map((name) => accessPolicy(name, ['llm/small'], { groups: ['team-a'] })),
    ),
  })
  const { data } = (await api.ask(route, { as: 'admin' })).json()
  t.match(data, [{ policies: { length: 20 }, more_policies: 3, usable: false }])
  t.notOk('more_subscriptions' in data[0])
})
