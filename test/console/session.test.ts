import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import root from 'tap'
import { consoleTests, isAccessible } from '../support/console.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'
import { poll } from '../support/poll.ts'

const issuer = await startOidcIssuer(root)
const test = consoleTests({ env: { OIDC_ISSUER_URL: issuer.url, OIDC_CLIENT_ID: 'tollgate' } })

test('whoever signs out is nobody, also by the way back', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(user)
  await page.getByRole('row', { name: 'test' }).waitFor()
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  await isAccessible(t, page, 'signed out')
  await page.goBack()
  await page.getByLabel('Identity token').waitFor()
  const content = await page.content()
  for (const each of [user, 'plenty', 'llm/sim']) t.notOk(content.includes(each), each)
})

test('signing out ends the keys that the page has made, and no others', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await gateway.mint({ user })
  const make = async (more: object) => {
    const body = { subscription: 'plenty', ephemeral: true, ...more }
    const options = { method: 'POST', body: JSON.stringify(body) }
    t.equal((await gateway.ask('/v1/api-keys', `token-${user}`, options)).status, 201)
  }
  await make({ name: 'own' })
  await make({ name: 'tried', labels: { 'made-by': 'console' } })
  await make({ name: 'tried', labels: { 'made-by': 'console' } })
  const active = async (): Promise<readonly string[]> => {
    const filters = { status: ['active'], includeEphemeral: true }
    const search = { method: 'POST', body: JSON.stringify({ filters }) }
    const { text } = await gateway.ask('/v1/api-keys/search', `token-${user}`, search)
    return JSON.parse(text).data.map(({ name }: { name: string }) => name)
  }
  await signIn(user)
  t.strictSame([...(await active())].sort(), ['own', 'test', 'tried', 'tried'])
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  await poll(async () => (await active()).length === 2, 'those of the page have ended')
  t.strictSame([...(await active())].sort(), ['own', 'test'])
})

test('a credential that is refused ends the session', async (t, { page, gateway, expected }) => {
  expected.add(401)
  const user = gateway.newUser()
  const { key, id } = await gateway.mint({ user })
  await page.goto(`${gateway.url}/console/models`)
  await page.getByLabel('Identity token').fill('nobody')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText(/^401 /).waitFor()
  await page.getByLabel('Identity token').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('row', { name: 'llm/sim' }).first().waitFor()
  t.equal(
    (await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`, { method: 'DELETE' })).status,
    200,
  )
  await page.getByRole('link', { name: 'API keys' }).click()
  await page.getByText('Your session has ended').waitFor()
  t.equal(await page.getByRole('row').count(), 0)
})

test('a token that expires soon is told of', async (t, { page, gateway }) => {
  const now = Math.floor(Date.now() / 1_000)
  for (const [minutes, isTold] of [
    [4, true],
    [60, false],
  ] as const) {
    await page.goto(`${gateway.url}/console`)
    const token = await issuer.sign({ sub: 'ada', exp: now + minutes * 60 })
    await page.getByLabel('Identity token').fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    const told = page.getByText('Your token is about to expire')
    if (isTold) await told.waitFor()
    t.equal(await told.count(), isTold ? 1 : 0, `${minutes} minutes`)
    if (isTold) await isAccessible(t, page, 'the warning')
    await page.getByRole('button', { name: 'Sign out' }).click()
  }
})

test('a reload loses nothing', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  for (let i = 0; i < 27; i += 1) await gateway.mint({ user })
  await signIn(user)
  await page.getByLabel('Find').fill('test')
  await page.waitForURL(/find=test/)
  await page.getByText('All', { exact: true }).click()
  await page.getByRole('button', { name: 'Name', exact: true }).click()
  await page.getByRole('button', { name: 'Next' }).click()
  await page.getByText('Page 2').waitFor()
  const address = page.url()
  t.match(address, /find=test&status=all&sort=name&order=asc&page=2$/)
  await page.reload()
  await page.getByText('Page 2').waitFor()
  t.equal(page.url(), address)
  t.equal(await page.getByLabel('Find').inputValue(), 'test')
  t.equal(await page.getByRole('row').count(), 3, 'the head and two keys')
})

test('a token is kept until its owner signs out or it ends, an API key never', async (t, {
  page,
  gateway,
  signIn,
  expected,
}) => {
  expected.add(401)
  const kept = () => page.evaluate("sessionStorage.getItem('tollgate-token')")
  const form = page.getByLabel('Identity token')
  const enter = async (token: string) => {
    await page.goto(`${gateway.url}/console`)
    await form.fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
  }
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  await signIn(user)
  t.match(await kept(), `token-${user}`)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await form.waitFor()
  t.equal(await kept(), null, 'signed out')
  await page.reload()
  await form.waitFor()

  await enter(key)
  t.equal(await kept(), null, 'an API key')
  await page.reload()
  await form.waitFor()

  const exp = Math.floor(Date.now() / 1_000) + 4
  await enter(await issuer.sign({ sub: 'ada', exp }))
  t.match(await kept(), `"expiresAt":${exp}000`)
  await poll(async () => (await kept()) === null, 'it is forgotten when it expires')
  t.ok(Date.now() >= exp * 1_000, 'and not earlier')

  const refused = JSON.stringify({ token: 'nobody' })
  await page.goto(`${gateway.url}/console`, { waitUntil: 'networkidle' })
  await page.evaluate(`sessionStorage.setItem('tollgate-token', '${refused}')`)
  await page.reload()
  await page.getByText(/^401 /).waitFor()
  t.equal(await kept(), null, 'one that is refused')

  const way = { json: { keepsToken: false, providers: [] } }
  await page.route('**/console/sign-in', (route) => route.fulfill(way))
  await page.waitForLoadState('networkidle')
  await page.evaluate(`sessionStorage.setItem('tollgate-token', '{"token":"token-${user}"}')`)
  await page.reload()
  await form.waitFor()
  t.equal(await kept(), null, 'the setting removes what was kept')
  await enter(`token-${user}`)
  t.equal(await kept(), null, 'and nothing is kept')
})

test('no other page frames it, or reads the API for it', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser())
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(`<iframe src="${gateway.url}/console"></iframe>`)
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  // Not the watched page: the browser complains, as it should.
  const other = await page.context().newPage()
  const { port } = server.address() as AddressInfo
  await other.goto(`http://localhost:${port}`)
  const [, frame] = other.frames()
  t.notMatch(await frame?.content(), 'csp-nonce', 'the frame is empty')
  const read = `fetch('${gateway.url}/v1/me', { headers: { authorization: 'Bearer token-admin' } })
    .then(() => 'read', () => 'refused')`
  t.equal(await other.evaluate(read), 'refused')
  const opened = `(() => { const it = open('${gateway.url}/console'); return it === null || it.closed })()`
  const popup = other.waitForEvent('popup')
  await other.evaluate(opened)
  await (await popup).waitForLoadState()
  t.equal(await (await popup).evaluate('window.opener === null'), true, 'no opener')
  const cookie = 'token=token-admin; authorization=Bearer token-admin'
  t.equal((await gateway.ask('/v1/me', undefined, { headers: { cookie } })).status, 401)
})

test('the colours are chosen, and kept', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await page.emulateMedia({ colorScheme: 'light' })
  const scheme = () => page.locator('html').getAttribute('data-mantine-color-scheme')
  await signIn(user)
  t.equal(await scheme(), 'light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.locator('html[data-mantine-color-scheme=dark]').waitFor()
  await page.getByRole('button', { name: 'Theme: system' }).click()
  await page.getByRole('button', { name: 'Theme: light' }).waitFor()
  t.equal(await scheme(), 'light')
  await signIn(user)
  await page.getByRole('button', { name: 'Theme: light' }).waitFor()
  t.equal(await scheme(), 'light')
})
