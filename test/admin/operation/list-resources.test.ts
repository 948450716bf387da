import { test } from 'tap'
import { accessPolicy, modelRef, snapshotOf, subscription } from '../../support/documents.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const snapshot = snapshotOf(
  modelRef('small'),
  modelRef('large'),
  accessPolicy('open', ['llm/small', 'llm/gone'], { groups: ['team-a'] }),
  subscription('basic', { groups: ['team-a'] }, { 'llm/small': [[50, '1m']] }),
)
const route = 'GET /v1/admin/resources'

test('an administrator sees conditions and places', async (t) => {
  const problems = Array.from({ length: 203 }, (_, at) => `models.yaml:${at}: error: bad`)
  const api = await createKeyApi(t, { snapshot, problems })
  const read = async (query = '') => (await api.ask(`${route}${query}`, { as: 'admin' })).json()
  const all = await read()
  t.match(all, { object: 'list', has_more: false, more_problems: 3 })
  t.equal(all.problems.length, 200)
  t.match(all.data[0], {
    kind: 'AccessPolicy',
    name: 'open',
    phase: 'Degraded',
    conditions: [{ type: 'Ready', status: 'False', message: /llm\/gone/ }],
    file: 'AccessPolicy/models-as-a-service/open.yaml',
    line: 1,
  })
  const internal = (await api.ask('GET /internal/v1/resources')).json()
  const names = (list: { data: { name: string }[] }) => list.data.map(({ name }) => name)
  t.strictSame(names(all), names(internal), 'the same as on the internal listener')
  t.strictSame(names(await read('?kind=ModelRef')), ['large', 'small'])
  t.strictSame(names(await read('?contains=llm/sm')), ['small'])
  const second = await read('?kind=ModelRef&limit=1&offset=1')
  t.strictSame([names(second), second.has_more], [['small'], false])
  t.match(await read('?limit=1'), { has_more: true })
})

test('operators read by how much limits that reserve may be passed', async (t) => {
  const limits = { 'llm/small': [[50, '1m']] } as const
  const reserving = snapshotOf(
    modelRef('small'),
    subscription('counts', { groups: ['team-a'] }, limits),
    subscription('holds', { groups: ['team-a'] }, limits, { admission: { mode: 'reserve' } }),
  )
  const api = await createKeyApi(t, { snapshot: reserving })
  const { bounds } = (await api.ask('GET /internal/v1/resources')).json()
  const bound = { subscription: 'holds', model: 'llm/small', window: '1m', limit: 50, tokens: 12 }
  t.strictSame(bounds, [bound])
})

test('a page that cannot be is refused (400)', async (t) => {
  const api = await createKeyApi(t)
  for (const query of [
    ...['limit=0', 'limit=1001', 'limit=x', 'limit=1e2', 'limit=', 'limit=1&limit=2'],
    ...['offset=-1', 'offset=99999999999', 'kind=a&kind=b', `contains=${'x'.repeat(1_025)}`],
  ]) {
    refused(t, await api.ask(`${route}?${query}`, { as: 'admin' }), 400, undefined, query)
  }
})
