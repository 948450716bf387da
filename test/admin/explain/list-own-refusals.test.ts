import { test } from 'tap'
import { isRefusalOf, type RefusalOwner } from '../../../src/decide/past-refusal.ts'
import { createRefusalMemory } from '../../../src/extauthz/refusal-memory.ts'
import type { RefusedCheck } from '../../../src/extauthz/refused-check.ts'
import type { Caller } from '../../../src/identity/rules/caller.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { noOtherProcess } from '../../support/no-other-process.ts'
import { refused } from '../../support/refusals.ts'

const route = 'GET /v1/refusals'

const token = (user: string): Caller => ({ by: 'token', proof: { by: 'file' }, user, groups: [] })
const keyed = (user: string, keyId: string): Caller => ({
  ...{ by: 'key', user, groups: [], keyId, subscription: 'basic' },
})

function pastRequest(requestId: string, now: number, caller: Caller | null): RefusedCheck {
  return {
    ...{ code: 'model_not_allowed', denial: { allowed: false, code: 'model_not_allowed' } },
    ...{ now, status: 403, reason: 'no such model', model: 'x', traceparent: undefined, caller },
    ...{ method: 'POST', path: '/v1/chat/completions', subscription: undefined, bodyModel: 'x' },
    source: () => undefined,
    requestId,
  }
}

test('a person sees own refusals, the newest first, without the reason', async (t) => {
  const pastRefusals = createRefusalMemory(Date.UTC(2026, 2, 1, 12))
  const api = await createKeyApi(t, { pastRefusals })
  const note = (id: string, ago: number, caller: Caller | null) =>
    pastRefusals.note(pastRequest(id, api.now - ago, caller))
  note('long ago', 3_700_000, token('alice'))
  note('by key', 3_000, keyed('alice', 'one'))
  note('by token', 2_000, token('alice'))
  note("bob's", 1_000, keyed('bob', 'two'))
  note('nobody', 500, null)
  const read = async (as: string, query = '') => (await api.ask(`${route}${query}`, { as })).json()
  const { data, ...rest } = await read('alice')
  const since = '2026-03-01T12:00:00Z'
  t.strictSame(rest, { object: 'list', complete: true, since }, 'it has just started')
  t.match(data, [
    { requestId: 'by token', user: 'alice', status: 403, code: 'model_not_allowed' },
    { requestId: 'by key', keyId: 'one', at: '2026-03-01T11:59:57Z' },
  ])
  t.equal(data.length, 2)
  t.notMatch(JSON.stringify(data), /reason|no such model/)
  t.strictSame((await read('alice', '?limit=1')).data.length, 1)
  t.strictSame((await read('admin')).data, [], 'an administrator sees no others here')
  api.now += 3_600_000
  t.notOk('since' in (await read('alice')), 'it knows the whole hour')
  refused(t, await api.ask(`${route}?limit=0`, { as: 'alice' }), 400)
  refused(t, await api.ask(route, {}), 401)
})

test('a key sees its own alone', async (t) => {
  const pastRefusals = createRefusalMemory()
  const api = await createKeyApi(t, { pastRefusals })
  const { key, id } = await api.createKey('alice')
  for (const [request, caller] of [
    ['of the key', keyed('alice', id)],
    ['of another key', keyed('alice', 'another')],
    ['of the person', token('alice')],
  ] as const) {
    pastRefusals.note(pastRequest(request, api.now - 1_000, caller))
  }
  const { data } = (await api.ask(route, { as: key })).json()
  t.strictSame(
    data.map(({ requestId }: { requestId: string }) => requestId),
    ['of the key'],
  )
})

test('other processes are asked for those alone, and none is named', async (t) => {
  const other = createRefusalMemory()
  const asked: (RefusalOwner | undefined)[] = []
  const othersRefusals = {
    ...noOtherProcess,
    recent: async (limit: number, whose?: RefusalOwner) => {
      asked.push(whose)
      return { refusals: other.recent(limit, api.now, whose), silent: ['replica-3'] }
    },
  }
  const api = await createKeyApi(t, { pastRefusals: createRefusalMemory(0), othersRefusals })
  other.note(pastRequest('mine', api.now, token('alice')))
  other.note(pastRequest('theirs', api.now, token('bob')))
  const { data, ...rest } = (await api.ask(route, { as: 'alice' })).json()
  t.strictSame(rest, { object: 'list', complete: false })
  t.match(data, [{ requestId: 'mine' }])
  t.strictSame(asked, [{ user: 'alice' }])
})

test('whoever had no valid credential is nobody', async (t) => {
  const memory = createRefusalMemory()
  memory.note(pastRequest('nobody', 0, null))
  const [refusal] = memory.recent(1, 0)
  t.ok(refusal)
  for (const user of ['', 'undefined', 'alice']) {
    t.notOk(refusal && isRefusalOf(refusal, { user }))
    t.strictSame(memory.recent(1, 0, { user }), [])
  }
})
