import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import http, { type RequestListener } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import root from 'tap'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests } from '../support/gateway.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const scripted = await startScriptedModel()
const secrets = temporaryFolder(root, { llm: {} })
const certificate = noOpenssl ? undefined : selfSigned(temporaryFolder(root), 'IP:127.0.0.1')
mkdirSync(join(secrets, 'llm'), { recursive: true })
writeFileSync(join(secrets, 'llm', 'ca.pem'), `about it\n${certificate?.cert ?? ''}`)

async function listen(server: http.Server | https.Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host)
  await once(server, 'listening')
  root.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

const fine: RequestListener = (_, response) => response.end('{}')
/** As some providers, it accepts TLS 1.3 only. */
const secure = await listen(https.createServer({ ...certificate, minVersion: 'TLSv1.3' }, fine))
/** Starts its response at once and then stalls; with `?late` it sends no response. */
const silent = await listen(
  http.createServer((request, response) => {
    if (request.url?.includes('late')) return
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: 1\n\n')
  }),
)
const overV4 = await listen(http.createServer(fine))
const overV6 = await listen(http.createServer(fine), '::1').catch(() => undefined)

/** Names below localhost resolve to two addresses, of which one refuses connections here. */
const refs: Record<string, object> = {
  renamed: { backendUrl: scripted.url, upstreamModel: 'org/Model-7B:latest' },
  vouched: { backendUrl: `https://127.0.0.1:${secure}`, caFile: 'ca.pem' },
  unvouched: { backendUrl: `https://127.0.0.1:${secure}` },
  hurried: { backendUrl: `http://127.0.0.1:${silent}`, timeouts: { answer: '300ms' } },
  fidgety: { backendUrl: `http://127.0.0.1:${silent}`, timeouts: { idle: '10s' } },
  four: { backendUrl: `http://four.localhost:${overV4}` },
  bulk: { backendUrl: `http://bulk.localhost:${overV4}` },
  upload: { backendUrl: `http://localhost:${overV4}` },
  six: { backendUrl: `http://six.localhost:${overV6 ?? overV4}` },
  wide: { backendUrl: scripted.url, paths: 'all' },
}
const keys = Object.keys(refs).map((name) => `llm/${name}`)
const limits = Object.fromEntries(keys.map((key) => [key, [[1_000_000, '1h']] as const]))
const test = gatewayTests({
  env: { SECRETS_DIR: secrets, METER_PATHS: 'chat,completions' },
  resources: () => [
    ...Object.entries(refs).map(([name, spec]) => modelRef(name, spec)),
    accessPolicy('open', keys, { groups: ['team'] }),
    subscription('plenty', { groups: ['team'] }, limits),
  ],
  // The smallest idle timeout is 10 s, which is too long for a test.
  adjustEnvoy: (config) => config.replaceAll('"idle_timeout": "10s"', '"idle_timeout": "0.4s"'),
})

const chat = '/v1/chat/completions'
const post = (body: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body,
})

test("replaces the model's name by the server's own", async (t, gateway) => {
  const { key } = await gateway.mint()
  const server = '"org/Model-7B:latest"'
  const long = 'y'.repeat(100_000)
  const bodies = (name: string, asked: string): readonly string[] => [
    `{"model":${name},"messages":[]}`,
    `{ "a" : 1e2 , "model" : ${name} , "x":"model\\"","seed":9007199254740993 }\n`,
    `{"x":{"model":"inner"},"m":"\u00e9","model":${name}}`,
    `{"long":"${long}","model":${name},"tail":[1.10]}`,
    `{"stream":true,"stream_options":{${asked}},"model":${name},"x":1}`,
    `{"model":${name},"stream":true,"stream_options":{${asked}},"x":"${long}"}`,
  ]
  const usage = '"include_usage":true'
  for (const path of [
    `/llm/renamed${chat}`,
    chat,
    '/llm/renamed/v1/completions',
    '/v1/completions',
  ]) {
    for (const name of ['"renamed"', '"re\\u006eamed"']) {
      const sent = bodies(name, '')
      const expected = bodies(server, usage)
      for (const [index, body] of sent.entries()) {
        const { status } = await gateway.ask(path, key, post(body))
        t.equal(status, 200, `${path} ${index}`)
        t.equal(scripted.received.at(-1)?.body, expected[index], `${path} ${index}`)
      }
    }
  }
  const { 'x-tollgate-hop': mark, ...headers } = scripted.received.at(-1)?.headers ?? {}
  t.ok(mark)
  t.notMatch(JSON.stringify(headers), /tollgate|envoy/)
})

test('refuses a body without a model if the name is to be replaced', async (t, gateway) => {
  const { key } = await gateway.mint()
  const before = scripted.received.length
  t.equal((await gateway.ask(`/llm/renamed${chat}`, key, post('{"messages":[]}'))).status, 400)
  t.equal(scripted.received.length, before)
})

test("verifies the server by the ModelRef's own CA", async (t, gateway) => {
  if (noOpenssl) {
    t.skip(noOpenssl, () => {})
    return
  }
  const { key } = await gateway.mint()
  t.equal((await gateway.ask(`/llm/vouched${chat}`, key, post('{"model":"a"}'))).status, 200)
  t.equal((await gateway.ask(`/llm/unvouched${chat}`, key, post('{"model":"a"}'))).status, 503)
})

test('applies the timeouts of the ModelRef', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const model of ['hurried', 'fidgety']) {
    const late = await gateway.ask(`/llm/${model}${chat}?late`, key, post('{"model":"a"}'))
    t.equal(late.status, 504, model)
    t.equal(JSON.parse(late.text).error.code, 'timeout', model)
    for (const path of [`/llm/${model}${chat}`, `/llm/${model}/v1/models`]) {
      const init = path.endsWith('models') ? {} : post('{"model":"a","stream":true}')
      await t.rejects(gateway.ask(path, key, init), `${path} is aborted`)
    }
  }
})

test('a host name is served at all its addresses', async (t, gateway) => {
  const { key } = await gateway.mint()
  if (overV6 === undefined) t.comment('no IPv6 here')
  for (const model of overV6 === undefined ? ['four'] : ['four', 'six']) {
    for (let round = 0; round < 12; round += 1) {
      const { status } = await gateway.ask(`/llm/${model}${chat}`, key, post('{"model":"a"}'))
      t.equal(status, 200, `${model} ${round}`)
    }
  }
})

test('a large body reaches the other address too', async (t, gateway) => {
  const { key } = await gateway.mint()
  const body = `{"model":"a","x":"${'y'.repeat(5_000_000)}"}`
  // Envoy does not buffer uploads for a retry, so only connecting to both addresses helps.
  for (const path of [`/llm/bulk${chat}`, '/llm/upload/v1/files']) {
    for (let round = 0; round < 8; round += 1) {
      const { status } = await gateway.ask(path, key, post(body))
      t.equal(status, 200, `${path} ${round}`)
    }
  }
})

test('serves all paths if the ModelRef says so', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const [path, method] of [
    ['/v1/model/info', 'GET'],
    ['/v1/anything', 'POST'],
  ] as const) {
    t.equal((await gateway.ask(`/llm/wide${path}`, key, { method })).status, 200, path)
    t.equal((await gateway.ask(`/llm/renamed${path}`, key, { method })).status, 404, path)
  }
  const disguised = await gateway.ask('/llm/wide/v1/Chat/Completions', key, post('{}'))
  t.equal(disguised.status, 404, 'other spellings of a counted path are still refused')
})
