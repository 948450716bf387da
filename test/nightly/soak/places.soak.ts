/** Places in a limit on concurrency: kept by requests that run long, given up by a gateway that was killed. */

import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { holdLeaseMs } from '../../../src/ratelimit/rules/hold.ts'
import { subscription } from '../../support/documents.ts'
import { envoyPath } from '../../support/envoy-binary.ts'
import { chatPath, models } from '../../support/gateway.ts'
import { poll } from '../../support/poll.ts'
import { startReplicas } from '../../support/replicas.ts'
import { skipValkey, startValkey } from '../../support/valkey.ts'

const skip = (envoyPath() === undefined && 'no Envoy') || skipValkey
const at = (key: string) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })

for (const store of ['memory', 'Redis']) {
  root.test(`places beside counters in ${store}`, { skip, timeout: 600_000 }, async (t) => {
    const valkey = store === 'Redis' ? await startValkey(t as Test) : undefined
    const { url, envoy, all } = await startReplicas(t as Test, {
      count: 1,
      resources: (backendUrl) => [
        ...models(backendUrl),
        subscription(
          'parallel',
          { groups: ['team'] },
          { 'llm/sim': [[1_000_000_000, '1h']] },
          { ofModels: { concurrency: 2 } },
        ),
      ],
      tokens: ['token-ada,ada,1,team'],
      env: valkey === undefined ? {} : { REDIS_URL: valkey.url },
    })
    const api = `http://${all[0]?.api}`
    const minted = await fetch(`${api}/v1/api-keys`, {
      ...{ method: 'POST', headers: at('token-ada') },
      body: JSON.stringify({ name: 'test', subscription: 'parallel' }),
    })
    const { key } = (await minted.json()) as { key: string }
    const hangUp = new AbortController()
    t.teardown(() => hangUp.abort())
    const streams: Response[] = []
    /** Kept, because the body of an answer that nobody holds is cancelled. */
    const stream = async () => {
      const answer = await fetch(url + chatPath, {
        ...{ method: 'POST', headers: at(key), signal: hangUp.signal },
        body: JSON.stringify({
          ...{ model: 'sim', messages: [], stream: true },
          sim: { words: 100_000, chunkDelayMs: 20 },
        }),
      })
      streams.push(answer)
      if (answer.ok) void answer.text().catch(() => {})
      return answer
    }
    const open = async () => {
      const { data } = (await (await fetch(`${api}/v1/limits`, { headers: at(key) })).json()) as {
        data: { kind: string; used: number }[]
      }
      return data.find(({ kind }) => kind === 'concurrency')?.used
    }

    t.equal((await stream()).status, 200)
    await delay(holdLeaseMs + 20_000)
    t.equal(await open(), 1, 'a stream that lasts longer than a lease keeps its place')
    const younger = await stream()
    t.equal(younger.status, 200)
    t.equal((await stream()).status, 429)

    process.kill(envoy.pid, 'SIGKILL')
    const killedAt = Date.now()
    t.equal(await open(), 2)
    await poll(async () => (await open()) === 0, 'their places are free', holdLeaseMs + 15_000)
    t.comment(`free after ${Math.round((Date.now() - killedAt) / 1_000)} s`)
  })
}
