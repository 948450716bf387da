import { gunzipSync } from 'node:zlib'
import Fastify from 'fastify'
import { type Test, test } from 'tap'
import { serveConsole } from '../../src/console/console.ts'
import type { CodeFlow } from '../../src/identity/oidc/code-flow.ts'

async function build(t: Test, codeFlows: readonly CodeFlow[] = []) {
  const app = Fastify()
  serveConsole(app, {
    codeFlows: () => codeFlows,
    gatewayUrl: 'http://gateway.example',
    ownIssuer: undefined,
    countAttempt() {},
    networkOf: ({ headers }) => String(headers['x-network']),
    displayNames: undefined,
    keepsToken: false,
    sampleCode: undefined,
  })
  t.teardown(() => app.close())
  return app
}

const nonceIn = (policy: unknown): string =>
  /style-src 'self' 'nonce-([\w+/=]{20,})'/.exec(String(policy))?.[1] ?? ''

test('every response has a nonce of its own', async (t) => {
  const app = await build(t)
  const seen = new Set<string>()
  for (const path of ['/console', '/console/', '/console/keys', '/console/keys?find=x']) {
    const { headers, body, statusCode } = await app.inject(path)
    t.equal(statusCode, 200)
    const nonce = nonceIn(headers['content-security-policy'])
    t.ok(body.includes(`nonce="${nonce}"`), 'the page has the nonce of its policy')
    t.notMatch(body, 'nonce-of-the-response')
    seen.add(nonce)
  }
  t.equal(seen.size, 4)
})

test('the page can neither be framed nor kept, and runs only own scripts', async (t) => {
  const app = await build(t)
  const { headers } = await app.inject('/console')
  t.match(headers, {
    'cache-control': 'no-store',
    'content-type': 'text/html; charset=utf-8',
    'cross-origin-opener-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  })
  const policy = String(headers['content-security-policy'])
  const rules = ["default-src 'none'", "script-src 'self';", "connect-src 'self';"]
  for (const rule of [...rules, "frame-ancestors 'none'"]) t.ok(policy.includes(rule), rule)
  t.notMatch(policy, /unsafe|\*|https?:/)
})

test('the files of the page are kept for good, and no others are served', async (t) => {
  const app = await build(t)
  const { body } = await app.inject('/console')
  const names = [...body.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, name]) => name)
  t.equal(names.length, 2)
  for (const name of names) {
    const { headers, rawPayload } = await app.inject(String(name))
    t.match(headers['content-type'], /^text\/(javascript|css)/)
    t.match(headers['cache-control'], 'immutable')
    t.equal(headers['x-content-type-options'], 'nosniff')
    t.ok(gunzipSync(rawPayload).length > 10_000)
  }
  for (const name of ['old.js', '../index.html', '..%2f..%2fpackage.json', '']) {
    const { statusCode } = await app.inject(`/console/assets/${name}`)
    t.ok(statusCode >= 400 || name === '../index.html', `${name} is ${statusCode}`)
  }
})

test('the page learns whether it may keep a token, and of no sample', async (t) => {
  const app = await build(t)
  const { statusCode, body } = await app.inject('/console/sign-in')
  t.equal(statusCode, 200)
  t.strictSame(JSON.parse(body), { keepsToken: false, providers: [] })
  const url = '/console/sign-in/sample'
  t.equal((await app.inject({ method: 'POST', url, payload: {} })).statusCode, 404)
})

test('the page learns which providers do not respond', async (t) => {
  const flow = (issuer: string, isDiscovered: boolean): CodeFlow => ({
    ...{ issuer, isDiscovered: () => isDiscovered },
    pageFor: () => (issuer.includes('up') ? `${issuer}/authorize` : undefined),
    exchange: async () => 'token',
  })
  const app = await build(t, [
    flow('https://up.example', true),
    flow('https://down.example', false),
    // Such as a cluster's issuer, at which nobody signs in.
    flow('https://without-page.example', true),
  ])
  t.match(JSON.parse((await app.inject('/console/sign-in')).body), {
    providers: [{ name: 'up.example' }],
    unavailable: ['down.example'],
  })
})

test('a network that guesses codes keeps no other from signing in', async (t) => {
  const issuer = 'https://login.example'
  const asked: string[] = []
  const answers: (() => void)[] = []
  const exchange = (code: string): Promise<string> =>
    new Promise((settle) => {
      asked.push(code)
      if (code === 'good') settle('token')
      else answers.push(() => settle('none'))
    })
  const app = await build(t, [
    { issuer, exchange, pageFor: () => undefined, isDiscovered: () => true },
  ])
  // A request is sent when it is awaited.
  const signIn = async (network: string, code: string) =>
    await app.inject({
      ...{ method: 'POST', url: '/console/sign-in', headers: { 'x-network': network } },
      payload: { issuer, code, verifier: 'x'.repeat(43) },
    })
  const guesses = Array.from({ length: 30 }, (_, i) => signIn('guesser', `guess-${i}`))
  const { statusCode, body } = await signIn('another', 'good')
  t.match({ statusCode, body }, { statusCode: 200, body: '{"token":"token"}' })
  t.strictSame(asked, ['guess-0', 'good'], 'the provider is asked by one guess at a time')
  const ended = Promise.all(guesses)
  for (let i = 0; i < guesses.length; i += 1) {
    answers[i]?.()
    await new Promise(setImmediate)
  }
  t.ok((await ended).every((each) => each.statusCode === 200))
})
