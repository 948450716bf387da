import { test } from 'tap'
import { createKeyApi, type KeyApi } from '../../support/key-api.ts'
import { createRecord } from '../../support/key-store.ts'
import { refused } from '../../support/refusals.ts'

const route = 'POST /v1/api-keys/search'
const collected = 200_000
/** A page in the middle of all keys of alice, in an order that no index serves. */
const deepPage = {
  sort: { by: 'name', order: 'asc' },
  pagination: { limit: 100, offset: 99_950 },
}

/** Inserts the keys of alice, as if collected over years. */
async function collect(api: KeyApi): Promise<void> {
  await api.sql`
    insert into api_keys (id, username, name, key_hash, status, user_groups, subscription,
      created_at, expires_at)
    select gen_random_uuid()::text, 'alice', 'key ' || lpad(i::text, 6, '0'), md5(i::text),
      'active', array['team-a'], 'premium', now() - i * interval '1 second', null
    from generate_series(1, ${collected}::int) i`.run(60_000)
}

test("one user's searches leave the store available to others", async (t) => {
  const api = await createKeyApi(t)
  await api.sql`set statement_timeout = 0`
  await collect(api)
  const cold = Array.from({ length: 11 }, () => createRecord({ user: 'bob' }))
  for (const record of cold) await api.keys.insert(record)
  const searches = Array.from({ length: 40 }, () => api.ask(route, { as: 'alice', body: deepPage }))
  const first = await Promise.race(searches)
  t.match(
    first
      .json()
      .data.map(({ name }: { name: string }) => name)
      .slice(0, 2),
    ['key 099951', 'key 099952'],
    'the page is correct',
  )
  for (const { hash, id } of cold) t.match(await api.keys.findByHash(hash), { id })
  const other = await api.createKey('bob', { subscription: 'b-only' })
  t.equal(
    (await api.ask(route, { as: 'bob' })).statusCode,
    200,
    "another user's search gets its turn",
  )
  t.equal((await api.ask(`DELETE /v1/api-keys/${other.id}`, { as: 'bob' })).statusCode, 200)
  const answers = await Promise.all(searches)
  const found = answers.filter(({ statusCode }) => statusCode === 200)
  t.comment(`${found.length} of ${answers.length} searches were answered`)
  for (const answer of answers) {
    if (answer.statusCode !== 200) refused(t, answer, 503, 'search_timeout')
  }
})

test('a slow search is reported as search_timeout', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice')
  await api.sql`alter table api_keys rename to kept`
  await api.sql`create view api_keys as select kept.* from kept, pg_sleep(10)`
  const answer = await api.ask(route, { as: 'alice' })
  refused(t, answer, 503, 'search_timeout')
  t.match(answer.json().error.message, /^The search took too long/)
  t.match(answer.headers, { 'retry-after': /^\d+$/ })
})
