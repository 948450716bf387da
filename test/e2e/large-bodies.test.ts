import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http2 from 'node:http2'
import { connect } from 'node:net'
import {
  chatPath,
  type Gateway,
  gatewayTests,
  meter,
  models,
  subscriptions,
} from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

const bodyTimeoutMs = 3_000
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 1_000_000_000, one: 1 }),
    meter,
  ],
  limits: { bodyTimeoutMs, bodyLimit: 4 * 2 ** 20 },
})
const shared = '/v1/chat/completions'

/** The response to a request that announces a long body, but sends only its beginning. */
async function announce(gateway: Gateway, lines: readonly string[]): Promise<string> {
  const sent = lines.some((line) => line.includes('chunked')) ? '1\r\n{\r\n' : '{'
  const socket = connect(gateway.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`POST ${shared} HTTP/1.1\r\nhost: x\r\n${lines.join('\r\n')}\r\n\r\n${sent}`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return answer.toString()
}

test('does not read a large body with an unknown credential', async (t, gateway) => {
  for (const length of ['content-length: 3000000', 'transfer-encoding: chunked']) {
    for (const credential of [
      'nonsense',
      'token-guest',
      'sk-tg-a_b',
      `sk-oai-${'a'.repeat(16)}_b`,
    ]) {
      const began = performance.now()
      const lines = [`authorization: Bearer ${credential}`, length]
      t.match(await announce(gateway, lines), /^HTTP\/1\.1 401 .*"credential_invalid"/s)
      t.ok(performance.now() - began < bodyTimeoutMs, 'before the timeout for bodies')
    }
    t.match(await announce(gateway, [length]), /^HTTP\/1\.1 401 /, 'also without a credential')
  }
})

test('serves and counts large and chunked bodies of known callers', async (t, gateway) => {
  const long = 'x'.repeat(3 * 2 ** 20)
  for (const path of [shared, chatPath]) {
    for (const content of [long, 'x'.repeat(65_536), 'short']) {
      for (const chunked of [false, true]) {
        const { key } = await gateway.mint({ subscription: 'one' })
        const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content }] })
        const answer = await gateway.ask(path, key, {
          method: 'POST',
          ...(chunked ? { body: new Blob([body]).stream(), duplex: 'half' } : { body }),
        } as RequestInit)
        t.equal(answer.status, 200, `${content.length} bytes at ${path}`)
        await poll(() => gateway.isSpent(key), 'the response is counted')
      }
    }
  }
})

test('refuses a body above the limit with 413', async (t, gateway) => {
  const { key } = await gateway.mint()
  const body = JSON.stringify({ model: 'sim', messages: [], x: 'x'.repeat(5 * 2 ** 20) })
  for (const path of [shared, chatPath]) {
    const answer = await gateway.ask(path, key, { method: 'POST', body }).catch(() => undefined)
    // A client that is still sending may see a closed connection instead.
    if (answer !== undefined) t.equal(answer.status, 413, path)
  }
})

test('a body that never ends times out', async (t, gateway) => {
  const { key } = await gateway.mint()
  const lines = [`authorization: Bearer ${key}`, 'content-length: 3000000']
  for (const path of [shared, chatPath]) {
    const socket = connect(gateway.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\n${lines.join('\r\n')}\r\n\r\n{"model":"`)
    const trickle = setInterval(() => socket.write('x'), 100)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    clearInterval(trickle)
    socket.destroy()
    t.match(answer.toString(), /^HTTP\/1\.1 408 .*"request_timeout"/s, path)
  }
})

test('a body of brackets does not keep Envoy busy', async (t, gateway) => {
  const { key } = await gateway.mint()
  /** utime and stime of Envoy in milliseconds; /proc counts in hundredths of a second. */
  const cpu = () => {
    const fields = readFileSync(`/proc/${gateway.envoy.pid}/stat`, 'utf8').split(' ')
    return (Number(fields[13]) + Number(fields[14])) * 10
  }
  const open = '[],'.repeat(2 ** 20)
  const body = `{"model":"sim","messages":[],"a":[${open}[]]}`
  const before = cpu()
  for (let call = 0; call < 3; call += 1) {
    t.equal((await gateway.ask(shared, key, { method: 'POST', body })).status, 200)
  }
  const each = (cpu() - before) / 3
  t.comment(`${Math.round(each)} ms of Envoy's CPU for ${Math.round(body.length / 2 ** 20)} MiB`)
  // Building a tree of the body would take more than twice as long.
  t.ok(each < 600, `${each} ms`)
})

test('limits a connection to a hundred streams', async (t, gateway) => {
  const session = http2.connect(gateway.url)
  t.teardown(() => session.destroy())
  session.on('error', () => {})
  await once(session, 'remoteSettings')
  t.equal(session.remoteSettings.maxConcurrentStreams, 100)
})
