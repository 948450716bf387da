import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { checkOf, checkResponse } from '../support/envoy-messages.ts'
import { connect } from '../support/grpc-client.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { skipValkey, startValkey } from '../support/valkey.ts'
import { lasting } from '../support/window-ends.ts'

const skip = skipValkey || (envoyPath() === undefined && 'no Envoy')
const path = '/llm/sim/v1/chat/completions'
const words = 40

test('a process that starts expects what the others have learned', { skip }, async (t) => {
  const admission = { mode: 'reserve' }
  const limits = { 'llm/sim': [[100_000_000, '1h']] } as const
  const valkey = await startValkey(t)
  const replicas = await startReplicas(t, {
    count: 3,
    started: 2,
    env: { REDIS_URL: valkey.url },
    resources: (backendUrl) => [
      modelRef('sim', { backendUrl, output: { maxTokens: 10_000 } }),
      accessPolicy('open', ['llm/sim'], { groups: ['team'] }),
      subscription('held', { groups: ['team'] }, limits, { admission }),
    ],
    tokens: [`token-ada,${lasting('ada')},1,team`],
  })
  const { url, all } = replicas
  const third = all[2]
  const minted = await fetch(`${url}/v1/api-keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer token-ada' },
    body: JSON.stringify({ name: 'one', subscription: 'held' }),
  })
  const { key } = (await minted.json()) as { key: string }
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const body = JSON.stringify({ model: 'sim', messages: [], sim: { words } })
  for (let i = 0; i < 300; i += 1) {
    const response = await fetch(url + path, { method: 'POST', headers, body })
    t.equal(response.status, 200)
    await response.text()
  }

  /** What a process expects of one request: what is left after one more. */
  async function expectedBy({ grpc }: { readonly grpc: string }): Promise<number> {
    const { ask } = connect(t, grpc)
    const left = async () => {
      const sent = { authorization: `Bearer ${key}`, 'x-request-id': randomUUID() }
      const check = checkOf(path, { ...sent, 'content-length': `${body.length}` })
      const answer = await ask('/envoy.service.auth.v3.Authorization/Check', check)
      const { ok_response } = checkResponse.decode(answer) as {
        ok_response: { response_headers_to_add: { header: { key: string; value: string } }[] }
      }
      const found = ok_response.response_headers_to_add.find(
        ({ header }) => header.key === 'x-ratelimit-remaining-tokens',
      )
      return Number(found?.header.value)
    }
    const before = await left()
    return before - (await left())
  }

  await third?.start()
  const isShared = async () => {
    const found: number[] = []
    // One after the other, since they share what is left.
    for (const replica of all) found.push(await expectedBy(replica))
    const [one = 0, two = 0, three = 0] = found
    return one < 4 * words && [two, three].every((each) => Math.abs(each / one - 1) <= 0.1)
  }
  await poll(isShared, 'all expect the same', 60_000)
})
