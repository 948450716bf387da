import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { failing } from '../../support/refusals.ts'

test('no key is ever stored or logged', async (t) => {
  const api = await createKeyApi(t)
  const created = [
    await api.createKey('alice'),
    await api.createKey('alice', { ephemeral: true, description: 'd' }),
  ]
  for (const { id, key } of created) {
    await api.ask(`GET /v1/api-keys/${id}`, { as: key })
    await api.ask(`GET /v1/api-keys/${key}`, { as: key })
    await api.ask(`GET /${key}`, { as: key })
    await api.ask('POST /v1/api-keys', { as: key, body: { name: 'k' } })
    await api.ask('POST /v1/api-keys/search', { as: key, body: { filters: { username: key } } })
    await api.ask('POST /internal/v1/api-keys/validate', { body: { key } })
    await api.ask('POST /internal/v1/api-keys/validate', { payload: `{"key":"${key}"` })
  }
  const [dump] = await api.sql<{ rows: string }[]>`
    select string_agg(row_to_json(api_keys)::text, '') as rows from api_keys`
  for (const { key } of created) {
    const secret = key.slice(key.indexOf('_') + 1)
    for (const part of [key, secret, secret.slice(0, -6), key.slice(6, key.indexOf('_'))]) {
      t.notOk(dump?.rows.includes(part))
      t.notOk(api.logged().includes(part))
    }
  }
})

test('no key is logged even if every store call fails', async (t) => {
  const methods = ['findByHashes', 'insert', 'search', 'findById'] as const
  const api = await createKeyApi(t, { around: failing('fault', ...methods) })
  const key = 'sk-oai-0123456789abcdef_verysecretverysecret'
  await api.ask('GET /v1/api-keys/x', { as: key })
  await api.ask('POST /v1/api-keys/search', { as: key })
  await api.ask('POST /internal/v1/api-keys/validate', { body: { key } })
  await api.ask('POST /v1/api-keys', { as: 'alice', body: { name: 'k' } })
  t.match(api.logged(), /"level":50/)
  t.notMatch(api.logged(), /verysecret|0123456789abcdef|alice-token/)
})
