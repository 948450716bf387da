import { test } from 'tap'
import { createKeyApi } from '../support/key-api.ts'

const route = 'GET /v1/me'

test('a caller learns who they are (200)', async (t) => {
  const api = await createKeyApi(t)
  const { key } = await api.createKey('admin')
  const read = async (as: string) => (await api.ask(route, { as })).json()
  t.strictSame(await read('alice'), {
    username: 'alice',
    groups: ['team-a'],
    credential: 'identity-token',
    administrator: false,
    ledger: true,
  })
  const without = await createKeyApi(t, { ledger: false })
  t.equal((await without.ask(route, { as: 'alice' })).json().ledger, false)
  t.match(await read('admin'), { username: 'admin', administrator: true })
  t.match(await read(key), {
    username: 'admin',
    credential: 'api-key',
    administrator: false,
    subscription: 'premium',
  })
})
