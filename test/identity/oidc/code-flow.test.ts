import { UnsecuredJWT } from 'jose'
import { type Test, test } from 'tap'
import { type CodeFlowOptions, createCodeFlow } from '../../../src/identity/oidc/code-flow.ts'

const issuer = 'https://login.example'
const token = new UnsecuredJWT({}).setIssuer(issuer).encode()
const back = 'https://gateway.example/console/signed-in'
const discovered = {
  authorization_endpoint: 'https://login.example/auth?tenant=1',
  token_endpoint: 'https://login.example/token',
  scopes_supported: ['openid', 'profile', 'offline_access'],
}

function flow(options: Partial<CodeFlowOptions> = {}) {
  const reasons: string[] = []
  const created = createCodeFlow({
    ...{ issuer, clientId: 'page', discovered: () => discovered },
    readDocument: async () => ({ id_token: token }),
    onRefused: (reason) => reasons.push(reason),
    ...options,
  })
  return { ...created, reasons }
}

test('the page asks for a code, for scopes that the provider has', async (t) => {
  const url = new URL(flow().pageFor(back) ?? '')
  t.equal(url.origin + url.pathname, 'https://login.example/auth')
  t.strictSame(Object.fromEntries(url.searchParams), {
    tenant: '1',
    client_id: 'page',
    response_type: 'code',
    redirect_uri: back,
    scope: 'openid profile',
    code_challenge_method: 'S256',
  })
})

test('a provider that cannot be trusted with it is not offered', async (t) => {
  for (const changed of [
    undefined,
    {},
    { ...discovered, authorization_endpoint: 'http://login.example/auth' },
    { ...discovered, authorization_endpoint: 'http://127.0.0.1/auth' },
    { ...discovered, authorization_endpoint: 'javascript:alert(1)' },
    { ...discovered, token_endpoint: 'http://login.example/token' },
    { ...discovered, token_endpoint: 5 },
  ]) {
    t.equal(flow({ discovered: () => changed }).pageFor(back), undefined, JSON.stringify(changed))
  }
})

test('the code is exchanged with the verifier, and without a secret', async (t) => {
  const sent: [string, string][] = []
  const { exchange } = flow({
    async readDocument(url, _signal, form) {
      sent.push([url, String(form)])
      return { id_token: token, access_token: 'd' }
    },
  })
  t.equal(await exchange('c 1', 'v', back), token)
  const form = new URLSearchParams({
    ...{ grant_type: 'authorization_code', client_id: 'page', redirect_uri: back },
    ...{ code: 'c 1', code_verifier: 'v' },
  })
  t.strictSame(sent, [['https://login.example/token', form.toString()]])
})

const failing = (message: string) => ({ readDocument: () => Promise.reject(new Error(message)) })

async function refuses(t: Test, options: Partial<CodeFlowOptions>, code: string): Promise<void> {
  const { exchange, reasons } = flow(options)
  await t.rejects(exchange('c', 'v', back), { code })
  t.equal(reasons.length, 1)
}

test('a refused code is 401, and anything else 503', async (t) => {
  await refuses(t, failing('https://login.example/token answered 400'), 'credential_invalid')
  await refuses(t, failing('https://login.example/token answered 502'), 'identity_unavailable')
  await refuses(t, failing('ECONNREFUSED'), 'identity_unavailable')
  await refuses(t, { readDocument: async () => ({}) }, 'identity_unavailable')
})

test('a credential of another source is 401', async (t) => {
  const foreign = new UnsecuredJWT({}).setIssuer('https://other.example').encode()
  const without = new UnsecuredJWT({}).encode()
  for (const id_token of [foreign, without, 'sk-tg-x', 'token-of-the-file', ''])
    await refuses(t, { readDocument: async () => ({ id_token }) }, 'credential_invalid')
})
