import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'
import { refused } from '../../support/refusals.ts'

const route = 'GET /v1/api-keys/config'

test('the limits of new keys are shown to every caller (200)', async (t) => {
  const api = await createKeyApi(t)
  const expected = { max_expiration_days: 90, ephemeral_max_expiration: '1h' }
  const { key } = await api.createKey('alice')
  for (const as of ['alice', key]) {
    const answer = await api.ask(route, { as })
    t.equal(answer.statusCode, 200)
    t.strictSame(answer.json(), expected)
  }
  refused(t, await api.ask(route), 401)
})
