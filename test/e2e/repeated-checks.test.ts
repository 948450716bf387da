import t from 'tap'
import { createDatabase } from '../support/database.ts'
import { subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { models, startGateway } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const skip = envoyPath() === undefined && 'no Envoy'

t.test(
  'a Check that the gateway sends again holds until its response ends',
  { skip },
  async (t) => {
    const url = await createDatabase(t)
    const proxy = await startTcpProxy(t, Number(new URL(url).port))
    const team = { groups: ['team'] }
    const gateway = await startGateway(t, {
      env: { DATABASE_URL: proxy.through(url) },
      resources: (backendUrl) => [
        ...models(backendUrl),
        subscription(
          'reserves',
          team,
          { 'llm/sim': [[10_000, '1h']] },
          { admission: { mode: 'reserve' } },
        ),
      ],
    })
    const user = gateway.newUser()
    const { key, id } = await gateway.mint({ user, subscription: 'reserves' })
    const held = async () => {
      const body = JSON.stringify({ model: 'llm/sim', keyId: id })
      const { text } = await gateway.ask('/v1/explain', `token-${user}`, { method: 'POST', body })
      return JSON.parse(text).limits?.[0]?.held ?? 0
    }
    // Both Checks wait for the key, the first one for longer than the gateway waits for its answer.
    proxy.slow(350)
    const abort = new AbortController()
    const response = await fetch(`${gateway.url}/llm/sim/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        ...{ model: 'sim', stream: true, messages: [], max_tokens: 400 },
        sim: { words: 400, chunkDelayMs: 100 },
      }),
      signal: abort.signal,
    })
    proxy.slow(0)
    t.equal(response.status, 200)
    await response.body?.getReader().read()
    t.ok((await held()) > 0, 'while it runs')
    abort.abort()
    await poll(async () => (await held()) === 0, 'until its client has gone')
  },
)
