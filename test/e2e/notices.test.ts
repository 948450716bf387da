import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { isSigned } from '../../examples/notice-receiver.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { secret, startReceiver } from '../support/notice-receiver.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey
const limit = 1_000

test('a user is told once, whoever is killed and while the receiver is away', {
  skip,
}, async (t) => {
  const valkey = await startValkey(t)
  const receiver = await startReceiver(t)
  receiver.status = 503
  const folder = join(temporaryFolder(t), 'journal')
  mkdirSync(folder, { mode: 0o700 })
  const [adminPort = 0] = await freePorts(1)
  const loud = subscription('loud', { groups: ['team'] }, { 'llm/sim': [[limit, '24h']] })
  loud.spec.notify = { at: [50, 100] }
  const gateway = await startReplicas(t, {
    count: 2,
    resources: (backendUrl) => [
      modelRef('sim', { backendUrl }),
      accessPolicy('open', ['llm/sim'], { groups: ['team'] }),
      loud,
    ],
    tokens: [`token-ann,${lasting('ann')},1,team`],
    env: {
      USAGE_JOURNAL: join(folder, 'usage.jsonl'),
      ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}`,
      REDIS_URL: valkey.url,
      NOTIFY_URL: receiver.url,
      NOTIFY_SECRET: secret,
    },
    envoyAdminPort: adminPort,
  })
  const post = (path: string, token: string, body: object) =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
  const made = await post('/v1/api-keys', 'token-ann', { name: 'loud' })
  const { key } = (await made.json()) as { key: string }
  const spend = async (totalTokens: number) => {
    const body = { model: 'sim', messages: [], sim: { totalTokens } }
    const answer = await post('/llm/sim/v1/chat/completions', key, body)
    await answer.arrayBuffer()
    return answer.status
  }
  t.equal(await spend(limit * 0.6), 200)
  await poll(() => receiver.received.length > 0, 'it is sent to a receiver that fails', 30_000)
  // Whichever had it, the other goes on; the last response is only in the journal if need be.
  t.equal(await spend(limit), 200)
  const [first] = gateway.all
  t.equal(await first?.end('SIGKILL'), 'SIGKILL')
  receiver.status = 204
  receiver.received.length = 0
  await poll(() => receiver.received.length >= 2, 'both are sent', 90_000)
  await poll(async () => (await spend(1)) === 429, 'the limit is used up', 30_000)
  await first?.start()
  const percents = receiver.received.map(({ body }) => body.data.percent)
  t.strictSame([...new Set(percents)].sort(), [100, 50])
  const ids = new Set(receiver.received.map(({ headers }) => headers['webhook-id']))
  t.equal(ids.size, 2, 'a notice that is repeated has the same id')
  for (const { headers, text } of receiver.received) t.ok(isSigned(secret, headers, text))
})
