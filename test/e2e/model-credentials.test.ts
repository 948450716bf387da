import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { startScriptedModel } from '../support/scripted-model.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const server = await startScriptedModel()
const secrets = temporaryFolder(root, {
  llm: { plain: 'sk-first-secret\n', azure: 'azure-secret', broken: 'two\nlines' },
  foreign: { stolen: 'somebody-elses' },
})
symlinkSync(join(secrets, 'foreign', 'stolen'), join(secrets, 'llm', 'stolen'))
mkdirSync(join(secrets, 'llm', '..data'))
writeFileSync(join(secrets, 'llm', '..data', 'mounted'), 'mounted-secret')
symlinkSync(join('..data', 'mounted'), join(secrets, 'llm', 'mounted'))

const refs: Record<string, object> = {
  plain: { credential: { file: 'plain' } },
  azure: { credential: { header: 'Api-Key', file: 'azure' } },
  prefixed: { credential: { header: 'x-auth', prefix: 'Token ', file: 'azure' } },
  mounted: { credential: { file: 'mounted' } },
  stolen: { credential: { file: 'stolen' } },
  missing: { credential: { file: 'missing' } },
  broken: { credential: { file: 'broken' } },
  renamed: { credential: { file: 'azure' }, upstreamModel: 'gpt-4o', modelIds: ['gpt-ours'] },
  open: {},
}
const keys = Object.keys(refs).map((name) => `llm/${name}`)
const test = gatewayTests({
  env: { SECRETS_DIR: secrets },
  resources: () => [
    ...Object.entries(refs).map(([name, spec]) =>
      modelRef(name, { backendUrl: server.url, ...spec }),
    ),
    accessPolicy('open', keys, { groups: ['team'] }),
    subscription(
      'plenty',
      { groups: ['team'] },
      Object.fromEntries(keys.map((key) => [key, [[1_000_000, '1h']]])),
    ),
  ],
})

const chat = (name: string) => `/llm/${name}/v1/chat/completions`
const lastHeaders = () => server.received.at(-1)?.headers ?? {}

test('a model server gets the credential of its ModelRef', async (t, gateway) => {
  const { key } = await gateway.mint()
  const cases: [model: string, header: string, value: string | undefined][] = [
    ['plain', 'authorization', 'Bearer sk-first-secret'],
    ['azure', 'api-key', 'azure-secret'],
    ['prefixed', 'x-auth', 'Token azure-secret'],
    ['mounted', 'authorization', 'Bearer mounted-secret'],
    ['open', 'authorization', undefined],
  ]
  for (const [model, header, value] of cases) {
    t.equal((await gateway.chat(key, {}, {}, chat(model))).status, 200, model)
    t.equal(lastHeaders()[header], value, model)
    if (header !== 'authorization') t.notOk(lastHeaders().authorization, model)
  }
  await gateway.ask('/llm/plain/v1/models', key)
  t.equal(lastHeaders().authorization, 'Bearer sk-first-secret', 'also on paths without a body')
})

test("replaces the client's own header of that name", async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const path of ['/v1/chat/completions', '/v1/models', '/v1/models/a']) {
    const post = path.endsWith('completions')
    const { status } = await gateway.ask(`/llm/azure${path}`, key, {
      method: post ? 'POST' : 'GET',
      headers: { 'api-key': 'mine', 'content-type': 'application/json' },
      ...(post && { body: '{"model":"a","messages":[]}' }),
    })
    t.equal(status, 200, path)
    t.equal(lastHeaders()['api-key'], 'azure-secret', path)
  }
})

test('a replaced file takes effect within seconds', async (_, gateway) => {
  const { key } = await gateway.mint()
  writeFileSync(join(secrets, 'fresh'), 'sk-second-secret')
  renameSync(join(secrets, 'fresh'), join(secrets, 'llm', 'plain'))
  await poll(async () => {
    const { status } = await gateway.chat(key, {}, {}, chat('plain'))
    if (status !== 200) throw new Error(`a call met ${status}`)
    return lastHeaders().authorization === 'Bearer sk-second-secret'
  }, 'the new credential is sent')
})

test('sends no request without the credential', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const model of ['stolen', 'missing', 'broken']) {
    const before = server.received.length
    const answer = await gateway.chat(key, {}, {}, chat(model))
    t.equal(answer.status, 502, model)
    t.equal(JSON.parse(answer.text).error.code, 'model_credential_refused', model)
    t.equal(server.received.length, before, `${model} got no request`)
  }
  const internal = formatAddress(gateway.addresses.internal)
  const told = (await (await fetch(`http://${internal}/internal/v1/resources`)).json()) as {
    problems: string[]
  }
  for (const model of ['stolen', 'missing', 'broken']) {
    t.match(told.problems.join('\n'), `ModelRef/llm/${model}: llm/${model} `)
  }
})

test("a refused credential is not reported as the caller's", async (t, gateway) => {
  const { key } = await gateway.mint()
  t.teardown(() => server.answer({ pieces: ['{}'] }))
  for (const status of [401, 403]) {
    server.answer({
      status,
      headers: { 'content-type': 'application/json', 'www-authenticate': 'Bearer' },
      pieces: [
        '{"error":{"message":"Incorrect API key: sk-sec',
        'ond-secret","code":"invalid_api_key"}}',
      ],
    })
    for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/models']) {
      const post = path !== '/v1/models'
      const { status, headers, text } = await gateway.ask(`/llm/plain${path}`, key, {
        method: post ? 'POST' : 'GET',
        headers: { 'content-type': 'application/json' },
        ...(post && { body: '{"model":"a","messages":[],"stream":true}' }),
      })
      t.equal(status, 502, path)
      t.notMatch(text, 'secret')
      t.equal(headers.get('x-should-retry'), 'false')
      t.notOk(headers.get('www-authenticate'))
      const { type, error } = JSON.parse(text)
      if (path === '/v1/messages') t.strictSame([type, error.type], ['error', 'api_error'])
      else t.equal(error.code, 'model_credential_refused', path)
    }
    const open = await gateway.chat(key, {}, {}, chat('open'))
    t.equal(open.status, status, 'without a credential the response is passed on')
    t.match(open.text, 'Incorrect API key')
  }
})

test('a refusal of any length is not passed on', async (t, gateway) => {
  const { key } = await gateway.mint()
  t.teardown(() => server.answer({ pieces: ['{}'] }))
  const mib = 'sk-second-secret'.repeat(2 ** 16)
  // From the third request on, the decision table decides, and less is held.
  for (const pieces of [[], ['x'], [mib, mib], [mib, mib], [mib, mib], ['x'], []]) {
    for (const headers of [{}, { 'content-length': pieces.join('').length }]) {
      server.answer({ status: 401, headers, pieces })
      const { status, text } = await gateway.chat(key, {}, {}, chat('plain'))
      t.equal(status, 502, `${pieces.length} pieces`)
      t.equal(JSON.parse(text).error.code, 'model_credential_refused')
    }
  }
})

test('a HEAD whose credential is refused gets no body', async (t, gateway) => {
  const { key } = await gateway.mint()
  t.teardown(() => server.answer({ pieces: ['{}'] }))
  for (const length of [0, 5]) {
    server.answer({ status: 401, headers: { 'content-length': length }, pieces: [] })
    const headers = [`authorization: Bearer ${key}`]
    const head = toBytes({ method: 'HEAD', path: '/llm/plain/v1/models', headers })
    const next = toBytes({ method: 'GET', path: '/health' })
    const both = head.toString().replace('connection: close\r\n', '') + next
    const { status, body } = await sendRaw(gateway.port, both)
    t.equal(status, 502)
    t.match(body, /^HTTP\/1\.1 200 OK\r\n/, 'the next response of the connection follows at once')
  }
})

test('a refused body is not reported as a refused credential', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { status, text } = await gateway.chat(key, {}, { model: 'another' }, chat('renamed'))
  t.equal(status, 403)
  t.match(JSON.parse(text).error, { message: /another/, code: 'model_not_allowed' })
  const renamed = await gateway.chat(key, {}, { model: 'renamed' }, chat('renamed'))
  t.equal(renamed.status, 200, renamed.text)
})

test('the credential is only in its file and in requests to the server', async (t, gateway) => {
  const { key } = await gateway.mint()
  await gateway.chat(key, {}, {}, chat('azure'))
  const dump = await (await fetch(`http://${gateway.envoy.admin}/config_dump?include_eds`)).text()
  t.match(dump, 'redacted')
  const { host, port } = gateway.addresses.metrics as { host: string; port: number }
  const metrics = await (await fetch(`http://${host}:${port}/metrics`)).text()
  for (const text of [dump, metrics, gateway.envoy.log()]) {
    t.notMatch(text, /azure-secret|(?:first|second|mounted)-secret|somebody-elses/)
  }
})
