import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'

const route = 'PUT /internal/v1/log-level'

test('the log level of a running process can be changed', async (t) => {
  const api = await createKeyApi(t)
  t.strictSame((await api.ask('GET /internal/v1/log-level')).json(), { level: 'trace' })
  t.strictSame((await api.ask(route, { body: { level: 'error' } })).json(), { level: 'error' })
  t.strictSame((await api.ask('GET /internal/v1/log-level')).json(), { level: 'error' })
})

test('an invalid level is refused and changes nothing', async (t) => {
  const api = await createKeyApi(t)
  for (const body of [{ level: 'loud' }, { level: 5 }, {}, [], null]) {
    t.equal((await api.ask(route, { body })).statusCode, 400, JSON.stringify(body))
  }
  t.strictSame((await api.ask('GET /internal/v1/log-level')).json(), { level: 'trace' })
  t.equal((await api.ask('PUT /v1/log-level', { body: { level: 'info' } })).statusCode, 404)
})

test('the trail records changes of the level', async (t) => {
  const api = await createKeyApi(t)
  await api.ask('GET /internal/v1/log-level')
  await api.ask(route, { body: { level: 'error' } })
  await api.ask(route, { body: { level: 'loud' } })
  const change = { action: 'log.level', actor: { source: 'internal' } }
  t.match(api.audited, [
    { ...change, outcome: 'success', status: 200, target: { level: 'error' } },
    { ...change, outcome: 'refused', status: 400 },
  ])
  t.equal(api.audited.length, 2, 'reading it is not recorded')
})
