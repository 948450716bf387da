import { type Test, test } from 'tap'
import { subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { meter, models } from '../support/gateway.ts'
import { startReplicas } from '../support/replicas.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const limits = { 'llm/sim': [[3_000, '1h']] } as const

async function start(t: Test) {
  const { url: redis } = await startValkey(t)
  const { url } = await startReplicas(t, {
    count: 2,
    env: { REDIS_URL: redis },
    resources: (backendUrl) => [
      ...models(backendUrl),
      meter,
      ...Object.entries({
        reserves: { admission: { mode: 'reserve' } },
        counts: {},
        'one-at-once': { ofModels: { concurrency: 1 } },
      }).map(([name, more]) => subscription(name, { groups: ['team'] }, limits, more)),
    ],
    tokens: Array.from({ length: 3 }, (_, i) => `token-u${i},u${i},${i},team`),
  })
  const post = (path: string, credential: string, body: object) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${credential}` },
      body: JSON.stringify(body),
    })
  /** Sends requests, each after the last answer, until a limit refuses one; returns their tokens. */
  return async function spend(name: string, user: number) {
    const minted = await post('/v1/api-keys', `token-u${user}`, { name, subscription: name })
    const { key } = (await minted.json()) as { key: string }
    for (let used = 0, i = 0; ; i += 1) {
      const words = 30 + ((i * 37) % 100)
      const answer = await post('/v1/chat/completions', key, {
        ...{ model: 'sim', messages: [], sim: { words } },
      })
      const { error } = (await answer.json()) as { error?: { message: string } }
      if (error !== undefined)
        return { used, error, shouldRetry: answer.headers.get('x-should-retry') }
      used += words
    }
  }
}

test('a client that waits for each answer can use up its limit', { skip }, async (t) => {
  const spend = await start(t)
  for (const [user, name] of ['counts', 'reserves', 'one-at-once'].entries()) {
    const { used, error, shouldRetry } = await spend(name, user)
    t.ok(used >= 3_000, `${name}: ${used} tokens, then ${error.message}`)
    t.equal(shouldRetry === 'true', false, name)
  }
})
