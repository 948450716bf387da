import { test } from 'tap'
import { createRefusalMemory } from '../../../src/extauthz/refusal-memory.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const route = 'GET /v1/admin/refusals'

test('an administrator sees the last refusals, the newest first', async (t) => {
  const pastRefusals = createRefusalMemory()
  const api = await createKeyApi(t, { pastRefusals })
  const note = (requestId: string, at: number, user = 'bob') =>
    pastRefusals.note({
      ...{ code: 'model_not_allowed', denial: { allowed: false, code: 'model_not_allowed' } },
      ...{ now: at, status: 403, reason: 'no such model', model: 'x', traceparent: undefined },
      ...{ method: 'POST', path: '/v1/chat/completions', subscription: undefined },
      bodyModel: '<img src=x> sk-tg-0123456789abcdef_0123456789abcdef0123456789abcdef0123456789a',
      caller: { by: 'key', user, groups: ['team-b'], keyId: 'id', subscription: 'b-only' },
      source: () => undefined,
      requestId: () => requestId,
    })
  note('long ago', api.now - 3_700_000)
  note('first', api.now - 2_000)
  note('second', api.now - 1_000, 'alice')
  const read = async (query = '') => (await api.ask(`${route}${query}`, { as: 'admin' })).json()
  const { data } = await read()
  t.match(data, [
    { requestId: 'second', user: 'alice' },
    { requestId: 'first', user: 'bob', status: 403, code: 'model_not_allowed', keyId: 'id' },
  ])
  t.match(data[1], { reason: 'no such model', at: '2026-03-01T11:59:58Z', limits: [] })
  t.notMatch(JSON.stringify(data), /0123456789abcdef_/, 'no key')
  t.equal((await read('?limit=1')).data.length, 1)
  t.match(api.audited.at(-1), { action: 'refusals.read', outcome: 'success', count: 1 })
  refused(t, await api.ask(`${route}?limit=0`, { as: 'admin' }), 400)
})

test('reading them is recorded, also an attempt, or not done', async (t) => {
  const api = await createKeyApi(t, { auditRequired: true })
  refused(t, await api.ask(route, { as: 'alice' }), 403, 'admin_required')
  t.match(api.audited, [
    { action: 'refusals.read', outcome: 'refused', status: 403, actor: { user: 'alice' } },
  ])
  api.auditWorks = false
  refused(t, await api.ask(route, { as: 'admin' }), 503, 'audit_unavailable')
})
