import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const labels = { team: 'search', 'example.com/stage': 'test' }

test('name, description and labels are changed, the rest stays', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice', { description: 'old', labels })
  const { usage, ...before } = (await api.ask(`GET /v1/api-keys/${id}`, { as: key })).json()
  t.ok(usage, 'only GET has it')
  t.strictSame(before.labels, labels)
  const change = async (body: object, as = 'alice') => {
    const answer = await api.ask(`PATCH /v1/api-keys/${id}`, { as, body })
    t.equal(answer.statusCode, 200, answer.body)
    return answer.json()
  }
  t.strictSame(await change({ name: ' new ' }), { ...before, name: 'new' })
  const { description: _, ...without } = { ...before, name: 'new' }
  t.strictSame(await change({ description: null }), without)
  t.strictSame(await change({ labels: { a: 'b' } }, 'admin'), { ...without, labels: { a: 'b' } })
  const { labels: none, ...plain } = without
  t.strictSame(none, labels)
  t.strictSame(await change({ labels: {} }), plain)
  t.match(api.audited.at(-1), { action: 'key.change', outcome: 'success', target: { keyId: id } })
})

test('a key, another user and an ended key are refused', async (t) => {
  const api = await createKeyApi(t)
  const { id, key } = await api.createKey('alice')
  const route = `PATCH /v1/api-keys/${id}`
  const body = { name: 'x' }
  refused(t, await api.ask(route, { as: key, body }), 403, 'identity_token_required')
  const foreign = await api.ask(route, { as: 'bob', body })
  refused(t, foreign, 404, 'not_found')
  for (const other of ['nothing', '0b5a3f3e-3c1e-4b6e-9d2a-6f3f1b2c4d5e']) {
    const unknown = await api.ask(`PATCH /v1/api-keys/${other}`, { as: 'alice', body })
    t.equal(unknown.body, foreign.body)
  }
  await api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })
  refused(t, await api.ask(route, { as: 'alice', body }), 404, 'not_found')
})

test('invalid changes are refused with the name of the field (400)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  for (const [body, message] of [
    [{}, /^The body must NOT have fewer than 1/],
    [{ subscription: 'basic' }, /^The body has no field "subscription"/],
    [{ name: '' }, /^name must not be empty/],
    [{ name: null }, /^name must not be empty/],
    [{ name: 'x'.repeat(129) }, /^name must have at most 128/],
    [{ description: '\0' }, /^description must not hold/],
    [{ labels: { '': 'x' } }, /^labels must have names like/],
  ] as const) {
    const answer = await api.ask(`PATCH /v1/api-keys/${id}`, { as: 'alice', body })
    refused(t, answer, 400, undefined, JSON.stringify(body))
    t.match(answer.json().error.message, message)
  }
  t.equal((await api.ask(`GET /v1/api-keys/${id}`, { as: 'alice' })).json().name, 'a key')
})

test('a search finds the keys that have all of the labels', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice', { name: 'both', labels })
  await api.createKey('alice', { name: 'one', labels: { team: 'search' } })
  await api.createKey('alice', { name: 'none' })
  await api.createKey('bob', { name: 'foreign', labels })
  const find = async (labelsContain: unknown) => {
    const body = { filters: { labelsContain }, sort: { by: 'name', order: 'asc' } }
    const answer = await api.ask('POST /v1/api-keys/search', { as: 'alice', body })
    t.equal(answer.statusCode, 200, answer.body)
    return answer.json().data.map(({ name }: { name: string }) => name)
  }
  t.strictSame(await find({ team: 'search' }), ['both', 'one'])
  t.strictSame(await find(labels), ['both'])
  t.strictSame(await find({ team: 'Search' }), [])
  t.strictSame(await find({}), ['both', 'none', 'one'])
  t.strictSame(await find(null), ['both', 'none', 'one'])
  const bad = { filters: { labelsContain: { 'a b': 'c' } } }
  const answer = await api.ask('POST /v1/api-keys/search', { as: 'alice', body: bad })
  refused(t, answer, 400)
  t.match(answer.json().error.message, /^filters\.labelsContain must have names like/)
})
