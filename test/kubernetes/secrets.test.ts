import http from 'node:http'
import { test } from 'tap'
import { createClient, type KubeClient, KubeError } from '../../src/kubernetes/client.ts'
import { createReadSecretEntry } from '../../src/kubernetes/secrets.ts'
import { listenLocally } from '../support/listening.ts'

/** The reader of one Secret whose response, or status of an error, is `answer.now`. */
function start(first: object | number) {
  const answer = { now: first }
  let passed = 0
  const client = {
    async send() {
      if (typeof answer.now === 'number') throw new KubeError(answer.now, `${answer.now}`)
      return { data: answer.now }
    },
  } as unknown as KubeClient
  const readEntry = createReadSecretEntry(client, { monotonic: () => passed })
  const read = async (now: object | number) => {
    answer.now = now
    passed += 10_000
    return await readEntry('llm', 'provider', 'api-key')
  }
  return read
}

const sesame = { 'api-key': Buffer.from('sesame').toString('base64') }
const [known, missing] = [{ text: 'sesame' }, { problem: /the Secret llm.provider cannot be read/ }]

test('a Secret stays known while the API server fails or starts', async (t) => {
  const read = start(sesame)
  t.match(await read(sesame), known)
  for (const status of [500, 503, 403, 403, 500, 403, 401]) t.match(await read(status), known)
  t.match(await read({ 'api-key': Buffer.from('new').toString('base64') }), { text: 'new' })
})

test('a Secret that is deleted or refused several times is not known', async (t) => {
  const read = start(sesame)
  t.match(await read(404), missing)
  t.match(await read(sesame), known)
  for (const status of [403, 403]) t.match(await read(status), known)
  t.match(await read(403), missing)
  t.match(await read(500), missing)
  t.match(await start(403)(403), missing, 'it was never known')
  t.match(await read({}), { problem: 'the Secret llm/provider has no entry api-key' })
})

test('a Secret stays known if something before the API server does not know it', async (t) => {
  let status = 200
  const server = http.createServer((_, response) => {
    response.statusCode = status
    response.end(status === 404 ? '<h1>404 Not Found</h1>' : JSON.stringify({ data: sesame }))
  })
  const client = createClient({ server: `http://127.0.0.1:${await listenLocally(t, server)}` })
  const readEntry = createReadSecretEntry(client, { keptMs: 0 })
  t.match(await readEntry('llm', 'provider', 'api-key'), known)
  status = 404
  t.match(await readEntry('llm', 'provider', 'api-key'), known)
  t.match(await readEntry('llm', 'other', 'api-key'), { problem: /other cannot be read: .* 404/ })
})

test('of many Secrets only those that were read last are kept', async (t) => {
  let requests = 0
  const client = { send: async () => ({ data: { key: `${requests++}` } }) }
  const readEntry = createReadSecretEntry(client as unknown as KubeClient, { monotonic: () => 0 })
  for (let i = 0; i < 25_000; i += 1) await readEntry('llm', `secret-${i}`, 'key')
  t.equal(requests, 25_000)
  await readEntry('llm', 'secret-24999', 'key')
  t.equal(requests, 25_000)
  await readEntry('llm', 'secret-0', 'key')
  t.equal(requests, 25_001)
})
