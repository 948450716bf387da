import { gatewayTests } from '../support/gateway.ts'

const origin = 'https://app.example'
const apps = ['app://obsidian.md', 'tauri://localhost', 'chrome-extension://abcdefgh']
const test = gatewayTests({ limits: { allowedOrigins: [origin, ...apps] } })
const paths = ['/v1/chat/completions', '/llm/sim/v1/chat/completions', '/v1/api-keys', '/v1/models']

test('answers a preflight without a credential', async (t, gateway) => {
  for (const path of paths) {
    const { status, headers } = await gateway.ask(path, undefined, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      },
    })
    t.equal(status, 200, path)
    t.equal(headers.get('access-control-allow-origin'), origin, path)
    t.match(headers.get('access-control-allow-headers'), /authorization, idempotency-key/)
    t.match(headers.get('access-control-allow-methods'), 'POST')
    t.equal(headers.get('access-control-allow-credentials'), null)
  }
})

test('apps and extensions have origins of their own schemes', async (t, gateway) => {
  const ask = async (sent: string) => {
    const headers = { origin: sent, 'access-control-request-method': 'POST' }
    const answer = await gateway.ask('/v1/models', undefined, { method: 'OPTIONS', headers })
    return answer.headers.get('access-control-allow-origin')
  }
  for (const app of apps) t.equal(await ask(app), app)
  for (const other of ['app://evil', 'tauri://localhost.evil', 'http://localhost', 'null'])
    t.equal(await ask(other), null, other)
})

test('a page of the allowed origin can read responses and errors', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const credential of [key, undefined, 'sk-tg-wrong']) {
    for (const path of paths.slice(0, 2)) {
      const { status, headers } = await gateway.ask(path, credential, {
        method: 'POST',
        headers: { origin, 'content-type': 'application/json' },
        body: '{"model":"sim","messages":[]}',
      })
      t.equal(status, credential === key ? 200 : 401)
      t.equal(headers.get('access-control-allow-origin'), origin)
      t.match(headers.get('access-control-expose-headers'), 'x-ratelimit-remaining-tokens')
    }
  }
})

test('other origins get no CORS headers', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const other of ['https://evil.example', 'https://app.example.evil.example', 'null']) {
    for (const method of ['OPTIONS', 'GET']) {
      const { headers } = await gateway.ask('/v1/models', key, {
        method,
        headers: { origin: other, 'access-control-request-method': 'POST' },
      })
      t.equal(headers.get('access-control-allow-origin'), null, `${method} ${other}`)
    }
  }
})

test('a browser at the bare address is led to the console, a program is not', async (t, gateway) => {
  const ask = (method: string, accept: string, path = '/') =>
    gateway.ask(path, undefined, { method, headers: { accept }, redirect: 'manual' })
  const page = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const led = await ask('GET', page)
  t.equal(led.status, 302)
  t.equal(led.headers.get('location'), '/console')
  t.equal((await ask('GET', page, '/?from=a-link')).status, 302)
  for (const [method, accept, path] of [
    ['GET', '*/*', '/'],
    ['GET', 'application/json', '/'],
    ['POST', page, '/'],
    ['GET', page, '/v1'],
  ] as const) {
    t.equal((await ask(method, accept, path)).status, 404, `${method} ${path} ${accept}`)
  }
})
