import t from 'tap'
import { createDatabase } from '../support/database.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { chatPath, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
/** After this time a supervisor may kill the process: docs/revocation.md, Rolling restarts. */
const endsWithinMs = 15_000

t.test('a process ends in time while all its stores hang', { skip }, async (t) => {
  const database = await createDatabase(t)
  const valkey = await startValkey(t)
  const [toDatabase, toRedis] = [
    await startTcpProxy(t, Number(new URL(database).port)),
    await startTcpProxy(t, valkey.port),
  ]
  const { url, all } = await startReplicas(t, {
    count: 1,
    database,
    databaseFor: (url) => toDatabase.through(url),
    resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 1e9 })],
    tokens: [`token-ann,${lasting('ann')},1,team`],
    env: { REDIS_URL: toRedis.through(valkey.url) },
  })
  const [replica] = all
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const body = JSON.stringify({ name: 'test', subscription: 'plenty' })
  const minted = await fetch(`${url}/v1/api-keys`, { method: 'POST', headers, body })
  const { key } = (await minted.json()) as { key: string }
  const chat = async () =>
    await fetch(url + chatPath, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'sim', messages: [] }),
    })
  const remaining = async () =>
    Number((await chat()).headers.get('x-ratelimit-remaining-tokens') ?? Number.NaN)
  await chat()
  await poll(async () => (await remaining()) < 1e9, 'responses are counted')
  toDatabase.swallow()
  toRedis.swallow()
  const before = await remaining()
  await poll(async () => (await remaining()) < before, 'responses are counted without Redis')

  const askedAt = performance.now()
  t.equal(await replica?.end('SIGTERM'), 1, 'the status reports that something was abandoned')
  const tookMs = performance.now() - askedAt
  t.ok(tookMs < endsWithinMs, `after ${Math.round(tookMs)} ms`)
  const log = replica?.log() ?? ''
  t.match(log, /the last counts are sent at the next start/)
  t.match(log, /"part":"the follower of revocations".*abandoned at shutdown/)
})
