import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { type ConsoleTest, consoleTests, isAccessible } from '../support/console.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'

const issuer = await startOidcIssuer(root)
const hostile = '<img src=x onerror=document.title=1>'

/** What the provider does: with whom a sign-in returns, and what a code is answered with. */
const provider = {
  returns: (state: string): Record<string, string> => ({ code: 'a-code', state }),
  token: (response: ServerResponse): unknown => response.end('{}'),
}

issuer.answer = (request, response) => {
  const url = new URL(request.url ?? '', issuer.url)
  const document = (value: object) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(value))
  }
  if (url.pathname === '/keys') return document({ keys: [...issuer.published.values()] })
  if (url.pathname === '/token') return void provider.token(response)
  if (url.pathname === '/authorize') {
    const back = new URL(url.searchParams.get('redirect_uri') ?? '')
    const query = provider.returns(url.searchParams.get('state') ?? '')
    for (const [name, value] of Object.entries(query)) back.searchParams.set(name, value)
    response.writeHead(302, { location: back.href })
    return void response.end()
  }
  return document({
    ...{ issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
    authorization_endpoint: `${issuer.url}/authorize`,
    token_endpoint: `${issuer.url}/token`,
  })
}

const test = consoleTests({ env: { OIDC_ISSUER_URL: issuer.url, OIDC_CLIENT_ID: 'tollgate' } }, [
  issuer.url,
])

/** Signs in at the provider as it is now, and claims that nothing of it is left but this sentence. */
async function fails(t: Test, world: ConsoleTest, sentence: string | RegExp): Promise<void> {
  const { page, gateway } = world
  await page.goto(`${gateway.url}/console/models`)
  await page.getByRole('button', { name: /^Sign in with/ }).click()
  const alert = page.getByRole('alert')
  await alert.getByText(sentence).waitFor()
  t.match(new URL(page.url()).search, /^$/, 'neither code nor state is in the address')
  t.equal(await page.locator('img').count(), 0)
  t.equal(await page.title(), 'Sign in · Tollgate')
  const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')
  t.equal(kept, '[{},{}]', 'nothing is kept')
  t.ok(await page.getByRole('button', { name: /^Sign in with/ }).isEnabled(), 'one can begin again')
}

test('an answer with another state or issuer is not accepted', async (t, world) => {
  const sentence = 'This sign-in was not begun in this tab; begin again.'
  for (const more of [
    { state: 'another' },
    { state: '' },
    { iss: 'https://evil.example' },
    { error: 'x', state: 'another' },
  ]) {
    provider.returns = (state) => ({ code: 'a-code', state, ...more })
    await fails(t, world, sentence)
  }
})

test('a refusal is text, however long', async (t, world) => {
  const description = `${hostile}${' and so on'.repeat(500)}`
  provider.returns = (state) => ({ error: 'access_denied', error_description: description, state })
  await fails(t, world, `The identity provider says: ${hostile}`)
  await isAccessible(t, world.page, 'a long refusal')
  const { height } = (await world.page.getByRole('alert').boundingBox()) ?? { height: 0 }
  t.ok(height > 0 && height < 500, `it is ${height} high`)
})

test('what a code is answered with is not shown', async (t, world) => {
  world.expected.add(401).add(503)
  provider.returns = (state) => ({ code: 'a-code', state, iss: issuer.url })
  const json = { 'content-type': 'application/json' }
  provider.token = (response) => response.writeHead(400, json).end(`{"error":"${hostile}"}`)
  await fails(t, world, 'The identity provider refused the sign-in; begin again.')
  const unavailable = /^503 /
  for (const answer of [
    `<html>${hostile}</html>`,
    JSON.stringify({ id_token: 'x'.repeat(5_000_000) }),
    '[]',
    JSON.stringify({ id_token: { toString: hostile } }),
  ]) {
    provider.token = (response) => response.writeHead(200, json).end(answer)
    await fails(t, world, unavailable)
  }
  provider.token = (response) => response.writeHead(302, { location: world.gateway.url }).end()
  await fails(t, world, unavailable)
  // Neither one of its tokens, nor one that it has signed for somebody else.
  const foreign = await issuer.sign({ sub: 'eve', aud: 'another' })
  for (const token of [hostile, 'a.b.c', foreign, 'y'.repeat(20_000)]) {
    provider.token = (response) =>
      response.writeHead(200, json).end(JSON.stringify({ id_token: token }))
    await fails(t, world, /^401 /)
  }
})

test('an answer that never ends is given up, and delays nobody else', async (t, world) => {
  const { page, gateway, expected } = world
  expected.add(503)
  provider.returns = (state) => ({ code: 'a-code', state })
  provider.token = async (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    while (!response.destroyed) {
      response.write(' ')
      await delay(100)
    }
  }
  const begin = performance.now()
  const waiting = fails(t, world, /^503 /)
  const other = await page.context().newPage()
  await other.goto(`${gateway.url}/console`)
  await other.getByLabel('Identity token').fill(`token-${gateway.newUser()}`)
  await other.getByRole('button', { name: 'Sign in', exact: true }).click()
  await other.getByRole('button', { name: 'Sign out' }).waitFor()
  await waiting
  t.comment(`given up after ${Math.round(performance.now() - begin)} ms`)
})

test('whoever it vouches for is shown by a name that is text', async (t, world) => {
  const { page, gateway } = world
  provider.returns = (state) => ({ code: 'a-code', state })
  const token = await issuer.sign({ sub: hostile })
  provider.token = (response) => response.end(JSON.stringify({ id_token: token }))
  await page.goto(`${gateway.url}/console/keys`)
  await page.getByRole('button', { name: /^Sign in with/ }).click()
  await page.getByText(hostile).first().waitFor()
  await page.getByRole('button', { name: 'Revoke all…' }).click()
  await page.getByText(`${hostile} has no active key.`).waitFor()
  t.equal(await page.locator('img').count(), 0)
  t.equal(await page.title(), 'API keys · Tollgate')
})
