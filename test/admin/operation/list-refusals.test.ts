import { test } from 'tap'
import type { ReportedRefusals } from '../../../src/decide/past-refusal.ts'
import { createRefusalMemory } from '../../../src/extauthz/refusal-memory.ts'
import type { RefusedCheck } from '../../../src/extauthz/refused-check.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { noOtherProcess } from '../../support/no-other-process.ts'
import { refused } from '../../support/refusals.ts'

const route = 'GET /v1/admin/refusals'

function refusal(requestId: string, at: number, user = 'bob'): RefusedCheck {
  return {
    ...{ code: 'model_not_allowed', denial: { allowed: false, code: 'model_not_allowed' } },
    ...{ now: at, status: 403, reason: 'no such model', model: 'x', traceparent: undefined },
    ...{ method: 'POST', path: '/v1/chat/completions', subscription: undefined },
    bodyModel: '<img src=x> sk-tg-0123456789abcdef_0123456789abcdef0123456789abcdef0123456789a',
    caller: { by: 'key', user, groups: ['team-b'], keyId: 'id', subscription: 'b-only' },
    source: () => undefined,
    requestId,
  }
}

test('an administrator sees the last refusals, the newest first', async (t) => {
  const pastRefusals = createRefusalMemory(0)
  const api = await createKeyApi(t, { pastRefusals })
  const note = (...about: Parameters<typeof refusal>) => pastRefusals.note(refusal(...about))
  note('long ago', api.now - 3_700_000)
  note('first', api.now - 2_000)
  note('second', api.now - 1_000, 'alice')
  const read = async (query = '') => (await api.ask(`${route}${query}`, { as: 'admin' })).json()
  const { data, ...rest } = await read()
  t.strictSame(rest, { object: 'list', complete: true })
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

test('those of other processes are among them, and who did not answer is named', async (t) => {
  const pastRefusals = createRefusalMemory(0)
  let reported: ReportedRefusals = { refusals: [], silent: [] }
  const othersRefusals = { ...noOtherProcess, recent: async () => reported }
  const api = await createKeyApi(t, { pastRefusals, othersRefusals })
  const ids = async (query = '') => {
    const { data, ...rest } = (await api.ask(`${route}${query}`, { as: 'admin' })).json()
    return { ids: data.map(({ requestId }: { requestId: string }) => requestId), ...rest }
  }
  const other = createRefusalMemory(0)
  for (const [memory, id, ago] of [
    [pastRefusals, 'own', 2_000],
    [other, 'newer', 1_000],
    [other, 'older', 3_000],
  ] as const) {
    memory.note(refusal(id, api.now - ago))
  }
  reported = { refusals: other.recent(10, api.now), silent: ['replica-3'] }
  t.strictSame(await ids(), {
    ...{ ids: ['newer', 'own', 'older'], object: 'list', complete: false, silent: ['replica-3'] },
  })
  t.strictSame((await ids('?limit=2')).ids, ['newer', 'own'])
  reported = { refusals: [], silent: undefined }
  t.strictSame(await ids(), { ids: ['own'], object: 'list', complete: false })
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
