import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import { type Address, formatAddress } from '../../src/settings/config.ts'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { runAt } from '../support/command.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { freePorts } from '../support/free-ports.ts'
import { gatewayTests } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

async function listen(server: http.Server | https.Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  root.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const [closed] = await freePorts(1)
const certificate = noOpenssl ? undefined : selfSigned(temporaryFolder(root), 'IP:127.0.0.1')
const secure = await listen(https.createServer({ ...certificate }))
const server = await listen(
  http.createServer((request, response) => {
    const { url = '' } = request
    request.resume()
    if (url.includes('never')) return
    if (url.includes('reset')) return void request.socket.destroy()
    if (url.includes('switch')) {
      const head = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade'
      return void request.socket.write(`${head}\r\n\r\n`)
    }
    if (url.includes('break')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n', () => request.socket.destroy())
      return
    }
    response.writeHead(url.includes('error') ? 500 : 200).end('{}')
  }),
)

const refs: Record<string, object> = {
  unknown: { backendUrl: 'http://nowhere.invalid:80' },
  closed: { backendUrl: `http://127.0.0.1:${closed}` },
  ...(certificate && { unvouched: { backendUrl: `https://${secure}` } }),
  plain: { backendUrl: `https://${server}` },
  slow: { backendUrl: `http://${server}`, timeouts: { answer: '200ms' } },
  resetting: { backendUrl: `http://${server}` },
  breaking: { backendUrl: `http://${server}` },
  keyless: { backendUrl: `http://${server}`, credential: { file: 'missing' } },
  fine: { backendUrl: `http://${server}` },
  mended: { backendUrl: `http://${server}` },
  unasked: { backendUrl: `http://${server}` },
}
const keys = Object.keys(refs).map((name) => `llm/${name}`)
const limits = Object.fromEntries(keys.map((key) => [key, [[1_000_000, '1h']] as const]))
const test = gatewayTests({
  resources: () => [
    ...Object.entries(refs).map(([name, spec]) => modelRef(name, spec)),
    accessPolicy('open', keys, { groups: ['team'] }),
    subscription('plenty', { groups: ['team'] }, limits),
  ],
})

interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

test('failures of model servers are counted and shown', async (t, gateway) => {
  const { key } = await gateway.mint()
  const ask = async (name: string, query: string) => {
    const answer = gateway.chat(key, {}, {}, `/llm/${name}/v1/chat/completions?${query}`)
    // An aborted response is an error for the client too.
    return (await answer.catch(() => undefined))?.status
  }
  const cases: [name: string, query: string, status: number | undefined, reason: string][] = [
    ['unknown', '', 503, 'dns'],
    ['closed', '', 503, 'refused'],
    ...(certificate ? [['unvouched', '', 503, 'tls'] as [string, string, number, string]] : []),
    ['plain', '', 503, 'tls'],
    ['slow', 'never', 504, 'timeout'],
    ['resetting', 'reset', 503, 'reset'],
    ['breaking', 'break', undefined, 'reset'],
    ['keyless', '', 502, 'credential_refused'],
  ]
  for (const [name, query, status] of cases) t.equal(await ask(name, query), status, name)
  const unread = { method: 'POST', body: '{' }
  const refused = await gateway.ask('/llm/unasked/v1/chat/completions', key, unread)
  t.equal(refused.status, 400, 'a request that the gateway refuses is not a failure of the server')
  t.equal(await ask('fine', 'error'), 500)
  t.equal(await ask('mended', 'reset'), 503)
  t.equal(await ask('mended', ''), 200)

  const { internal, metrics: at } = gateway.addresses
  const read = async (address: Address, path: string) =>
    (await fetch(`http://${formatAddress(address)}${path}`)).text()
  const metrics = () => read(at as Address, '/metrics')
  await poll(
    async () => (await metrics()).includes('model="llm/mended",reason="reset"'),
    'the last failure is counted',
  )
  const text = await metrics()
  for (const [name, , , reason] of cases) {
    t.match(text, `tollgate_model_failures_total{model="llm/${name}",reason="${reason}"} 1\n`)
  }
  t.notMatch(text, /model_failures_total\{model="llm\/(fine|unasked)"/)

  const conditionsOf = async (): Promise<Map<string, Condition>> => {
    const { data } = JSON.parse(await read(internal, '/internal/v1/resources')) as {
      data: { name: string; kind: string; conditions: Condition[] }[]
    }
    const models = data.filter(({ kind }) => kind === 'ModelRef')
    return new Map(
      models.map(({ name, conditions }) => [
        name,
        conditions.find(({ type }) => type === 'BackendReachable') as Condition,
      ]),
    )
  }
  await poll(
    async () => (await conditionsOf()).get('mended')?.status === 'True',
    'the server is shown as available again',
  )
  const conditions = await conditionsOf()
  for (const [name, , , reason] of cases) {
    const condition = conditions.get(name)
    t.equal(condition?.status, 'False', name)
    t.equal(condition?.reason.toLowerCase(), reason.replace('_', ''), name)
    t.not(condition?.message, '', name)
  }
  t.equal(conditions.get('fine')?.status, 'True', 'an error from the server is a response')
  t.equal(conditions.get('unasked')?.status, 'Unknown')
  t.match(
    conditions.get('unvouched')?.message,
    certificate ? 'CERTIFICATE_VERIFY_FAILED' : undefined,
  )

  const doctor = await runAt(
    {
      env: {
        INTERNAL_ADDRESS: formatAddress(internal),
        METRICS_ADDRESS: formatAddress(at as Address),
        ENVOY_ADMIN_ADDRESS: gateway.envoy.admin,
      },
    },
    'doctor',
  )
  t.match(doctor.out, /the server of llm\/closed failed: Refused, ./)
  t.match(doctor.out, 'docs/runbook.md#tollgatemodelfailing')
  t.notMatch(doctor.out, /llm\/(fine|mended|unasked)/)
  const explained = async (model: string) => {
    const options = { method: 'POST', body: JSON.stringify({ model }) }
    return JSON.parse((await gateway.ask('/v1/explain', key, options)).text)
  }
  const backend = { reachable: false, reason: 'refused' }
  t.match(await explained('closed'), { allowed: true, backend })
  t.notOk((await explained('mended')).backend)
})

test('no request is answered with an upgrade that it has not asked for', async (t, gateway) => {
  const { key } = await gateway.mint()
  const body = JSON.stringify({ model: 'fine', messages: [] })
  const sent = [`authorization: Bearer ${key}`, 'content-type: application/json']
  for (const [operation, error] of [
    ['chat/completions', { type: 'server_error', code: 'bad_gateway' }],
    ['messages', { type: 'api_error' }],
  ] as const) {
    const path = `/llm/fine/v1/${operation}?switch`
    const answer = await sendRaw(gateway.port, toBytes({ path, headers: sent, body }))
    t.equal(answer.status, 502, operation)
    t.notMatch(answer.head, /upgrade/i)
    t.match(JSON.parse(answer.body), { error })
  }
})

test('the response has the request id, but no details', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { headers, text } = await gateway.chat(key, {}, {}, '/llm/closed/v1/chat/completions')
  t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/)
  t.notMatch(text, /refused|127\.0\.0\.1/)
})
