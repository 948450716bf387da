import { test } from 'tap'
import { addReplica } from '../../support/followers.ts'
import { createKeyApi } from '../../support/key-api.ts'
import { failing, refused } from '../../support/refusals.ts'

const route = 'POST /v1/api-keys/bulk-revoke'
const propagation = { state: 'confirmed', replicas: 1, acknowledged: 1 }

test('revokes your own keys, however the body names you (200)', async (t) => {
  const api = await createKeyApi(t)
  const foreign = await api.createKey('bob')
  const bodies = [
    undefined,
    null,
    {},
    { username: null },
    { username: ' ' },
    { username: ' alice ' },
  ]
  for (const body of bodies) {
    const plain = await api.createKey('alice')
    await api.createKey('alice', { ephemeral: true })
    t.equal((await api.ask('GET /v1/api-keys/x', { as: plain.key })).statusCode, 404)
    const answer = await api.ask(route, { as: 'alice', body })
    t.equal(answer.statusCode, 200)
    t.strictSame(answer.json(), {
      revokedCount: 2,
      message: 'Revoked 2 API keys of user alice.',
      propagation,
    })
    refused(t, await api.ask('GET /v1/api-keys/x', { as: plain.key }), 401)
  }
  t.equal((await api.keys.findById(foreign.id))?.status, 'active')
})

test('a name with outer blanks names its own user (200)', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('blanks')
  const answer = await api.ask(route, { as: 'blanks', body: { username: ' blanks ' } })
  t.match(answer.json(), { revokedCount: 1 })
  t.equal((await api.ask(route, { as: 'blanks', body: { username: 'blanks' } })).statusCode, 403)
  await api.createKey('blanks')
  await api.createKey('alice')
  const byAdmin = async (username: string) => {
    return (await api.ask(route, { as: 'admin', body: { username } })).json().revokedCount
  }
  t.equal(await byAdmin('blanks'), 0)
  t.equal(await byAdmin(' blanks '), 1)
  t.equal(await byAdmin(' blanks '), 0, 'and never those of another user')
  t.equal(await byAdmin(' alice '), 1, 'without such a user the name is trimmed')
})

test('an administrator may name another user', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice')
  await api.createKey('admin')
  const answer = await api.ask(route, { as: 'admin', body: { username: 'alice' } })
  const message = 'Revoked 1 API key of user alice.'
  t.strictSame(answer.json(), { revokedCount: 1, message, propagation })
  const unknown = await api.ask(route, { as: 'admin', body: { username: 'nobody' } })
  t.match(unknown.json(), { revokedCount: 0, message: /0 API keys of user nobody/ })
})

test('an administrator may name a subscription, with or without a user', async (t) => {
  const api = await createKeyApi(t)
  const subscription = 'basic'
  const alice = await api.createKey('alice', { subscription })
  const bob = await api.createKey('bob')
  await api.sql`update api_keys set subscription = 'basic' where id = ${bob.id}`
  const other = await api.createKey('alice', { subscription: 'premium' })
  const ask = async (body: object) => (await api.ask(route, { as: 'admin', body })).json()
  t.match(await ask({ username: 'alice', subscription: ' basic ' }), {
    revokedCount: 1,
    message: 'Revoked 1 API key of user alice under subscription basic.',
    propagation,
  })
  refused(t, await api.ask('GET /v1/api-keys/x', { as: alice.key }), 401)
  t.equal((await api.ask('GET /v1/api-keys/x', { as: bob.key })).statusCode, 404)
  t.match(await ask({ subscription }), {
    revokedCount: 1,
    message: 'Revoked 1 API key under subscription basic.',
  })
  refused(t, await api.ask('GET /v1/api-keys/x', { as: bob.key }), 401)
  t.equal((await api.ask('GET /v1/api-keys/x', { as: other.key })).statusCode, 404)
  t.match(await ask({ subscription: 'nothing' }), { revokedCount: 0 })
  for (const body of [{ subscription }, { subscription, username: 'alice' }]) {
    refused(t, await api.ask(route, { as: 'alice', body }), 403, 'admin_required')
  }
  t.equal((await api.keys.findById(other.id))?.status, 'active')
})

test('a dry run counts and revokes nothing', async (t) => {
  const api = await createKeyApi(t)
  const keys = [await api.createKey('alice'), await api.createKey('alice', { ephemeral: true })]
  const answer = await api.ask(route, { as: 'alice', body: { dryRun: true } })
  t.equal(answer.statusCode, 200)
  t.strictSame(answer.json(), {
    revokedCount: 2,
    message: 'Dry run: would revoke 2 API keys of user alice.',
    dryRun: true,
  })
  for (const { id } of keys) t.equal((await api.keys.findById(id))?.status, 'active')
  const body = { username: 'alice', dryRun: true }
  refused(t, await api.ask(route, { as: 'bob', body }), 403, 'admin_required')
  t.match((await api.ask(route, { as: 'alice', body: { dryRun: false } })).json(), {
    revokedCount: 2,
    propagation,
  })
})

test('an unknown field is refused and named (400)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('alice')
  const answer = await api.ask(route, { as: 'alice', body: { dryrun: true } })
  refused(t, answer, 400, 'invalid_request')
  t.equal(
    answer.json().error.message,
    'The body has no field "dryrun"; it has username, subscription, dryRun.',
  )
  t.equal((await api.keys.findById(id))?.status, 'active')
})

test('names the replicas that have not acknowledged the revocation', async (t) => {
  const api = await createKeyApi(t)
  await addReplica(api.sql, 'cut off')
  const pending = { state: 'pending', replicas: 2, acknowledged: 1, waitingFor: ['cut off'] }
  await api.createKey('alice')
  t.match((await api.ask(route, { as: 'alice' })).json(), { revokedCount: 1, propagation: pending })
  const again = await api.ask(route, { as: 'alice' })
  t.match(
    again.json(),
    { revokedCount: 0, propagation: pending },
    'a second request reports them too',
  )
})

test('expired and revoked keys stay as they are', async (t) => {
  const api = await createKeyApi(t)
  const past = await api.createKey('alice', { expiresIn: '1m' })
  const stored = await api.createKey('alice')
  await api.sql`update api_keys set status = 'expired' where id = ${stored.id}`
  const revoked = await api.createKey('alice')
  await api.ask(`DELETE /v1/api-keys/${revoked.id}`, { as: 'alice' })
  api.now += 60_000
  const forever = await api.createKey('alice')
  await api.sql`update api_keys set expires_at = null where id = ${forever.id}`
  t.match((await api.ask(route, { as: 'alice' })).json(), { revokedCount: 1 })
  t.equal((await api.keys.findById(past.id))?.status, 'active')
  t.equal((await api.keys.findById(stored.id))?.status, 'expired')
  t.equal((await api.keys.findById(forever.id))?.status, 'revoked')
  t.match((await api.ask(route, { as: 'alice' })).json(), { revokedCount: 0 })
})

test('two concurrent requests count each key once', async (t) => {
  const api = await createKeyApi(t)
  const fill = () => api.sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription)
    select gen_random_uuid()::text, 'alice', 'k', gen_random_uuid()::text, array['a'], 'premium'
    from generate_series(1, 2500)`
  for (let round = 0; round < 3; round += 1) {
    await fill()
    const answers = await Promise.all([
      api.ask(route, { as: 'alice' }),
      api.ask(route, { as: 'admin', body: { username: 'alice' } }),
      api.ask(route, { as: 'alice' }),
    ])
    const counts = answers.map((answer) => answer.json().revokedCount)
    t.equal(
      counts.reduce((sum, count) => sum + count),
      2_500,
      `${counts}`,
    )
  }
})

test('concurrent bulk and single revocations count each key once', async (t) => {
  const api = await createKeyApi(t)
  const created = await Promise.all(Array.from({ length: 20 }, () => api.createKey('alice')))
  const [bulk, ...single] = await Promise.all([
    api.ask(route, { as: 'alice' }),
    ...created.map(({ id }) => api.ask(`DELETE /v1/api-keys/${id}`, { as: 'alice' })),
  ])
  const succeeded = single.filter(({ statusCode }) => statusCode === 200).length
  t.equal(bulk?.json().revokedCount + succeeded, 20)
})

test('an invalid field is named (400)', async (t) => {
  const api = await createKeyApi(t)
  await api.createKey('alice')
  for (const body of [[], 'alice', 5, { username: 5 }, { username: ['alice'] }, { username: {} }]) {
    refused(t, await api.ask(route, { as: 'alice', body }), 400, 'invalid_request')
  }
  for (const username of ['ali\0ce', '\0', '\ud800']) {
    const answer = await api.ask(route, { as: 'alice', body: { username } })
    refused(t, answer, 400, 'invalid_request')
    t.match(answer.json().error.message, /^username must not hold/)
  }
  refused(t, await api.ask(route, { as: 'alice', payload: '{"username"' }), 400, 'invalid_body')
  t.match((await api.ask(route, { as: 'alice' })).json(), { revokedCount: 1 })
})

test('refuses another user’s name (403)', async (t) => {
  const api = await createKeyApi(t)
  const { id } = await api.createKey('bob')
  refused(
    t,
    await api.ask(route, { as: 'alice', body: { username: 'bob' } }),
    403,
    'admin_required',
  )
  t.equal((await api.keys.findById(id))?.status, 'active')
})

test('an internal fault reveals nothing (500)', async (t) => {
  const api = await createKeyApi(t, { around: failing('fault', 'revokeAll') })
  refused(t, await api.ask(route, { as: 'alice' }), 500, 'internal')
})

test('revokes nothing while the store is unavailable (503)', async (t) => {
  const api = await createKeyApi(t, { around: failing('outage', 'revokeAll') })
  const answer = await api.ask(route, { as: 'alice' })
  refused(t, answer, 503, 'store_unavailable')
  t.match(answer.json().error.message, /may or may not have been done\. Repeat it/)
})

test('a server that refuses writes after the first keys has revoked these (503)', async (t) => {
  const api = await createKeyApi(t)
  await api.sql`
    insert into api_keys (id, username, name, key_hash, user_groups, subscription, created_at)
    select gen_random_uuid()::text, 'alice', 'k', i::text, array['a'], 'basic',
      now() - i * interval '1 second'
    from generate_series(1, 2001) i`
  await api.sql.unsafe(`
    create function refuse() returns trigger language plpgsql as
      $$ begin raise sqlstate '25006' using message = 'read-only'; end $$;
    create trigger refuse before update on api_keys for each row
      when (old.key_hash = '2001') execute function refuse()`)
  const answer = await api.ask(route, { as: 'alice' })
  refused(t, answer, 503, 'store_unavailable')
  t.match(answer.json().error.message, /may or may not have been done\. Repeat it/)
})
