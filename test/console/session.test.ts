import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import root, { type Test } from 'tap'
import { openContext, type WatchedPage, watchPage } from '../support/browser.ts'
import { consoleTests, isAccessible } from '../support/console.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const issuer = await startOidcIssuer(root)
const test = consoleTests({ env: { OIDC_ISSUER_URL: issuer.url, OIDC_CLIENT_ID: 'tollgate' } })

/** A page with a clock that the test sets: it is that of a whole context, which the other tests share. */
async function withOwnClock(
  t: Test,
  { page }: Pick<WatchedPage, 'page'>,
  aheadMs = 0,
): Promise<WatchedPage> {
  const watched = await watchPage(await openContext(t, page.context().browser() as Browser))
  await watched.page.clock.install({ time: Date.now() + aheadMs })
  return watched
}

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

test('what was entered is still there after signing in again', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(401)
  const [user, other] = [gateway.newUser(), gateway.newUser()]
  await signIn(user)
  const error = { message: 'The token has expired.', type: 'authentication_error', code: 'x' }
  const keys = '**/v1/api-keys'
  const refuse = (address: string) =>
    page.route(address, (route) => route.fulfill({ status: 401, json: { error } }))
  const signInAgain = async (as: string) => {
    await page.getByLabel('Identity token').fill(`token-${as}`)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }
  const dialog = page.getByRole('dialog')
  const name = dialog.locator('input[name=name]')
  const fill = async () => {
    await page.getByRole('button', { name: 'New key' }).click()
    await name.fill('long thought about')
    await dialog.getByText('Restrictions').click()
    await dialog.getByRole('checkbox', { name: 'llm/other' }).check()
    await dialog.getByRole('button', { name: 'Add a limit' }).click()
    await dialog.getByRole('group', { name: 'New limit' }).getByLabel('At most').fill('12')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await page.getByText(`Sign in again as ${user}, and go on with the form.`).waitFor()
    await dialog.waitFor({ state: 'detached' })
  }
  const providers = [{ issuer: 'https://i', name: 'School', page: 'https://i/' }]
  await page.route('**/console/sign-in', (route) =>
    route.fulfill({ json: { providers, keepsToken: true } }),
  )
  await refuse(keys)
  await fill()
  t.equal(await page.getByRole('heading', { name: 'API keys' }).count(), 0, 'the page is hidden')
  await page.getByText('A provider opens its page in a new tab.').waitFor()
  await isAccessible(t, page, 'signing in again')
  await keepPicture(page, 'signing-in-again')
  await page.keyboard.press('Escape')
  await page.getByRole('status').first().focus()
  await page.keyboard.press('Tab')
  const focused = await page.evaluate('document.activeElement.textContent')
  t.equal(focused, 'Sign in with School', 'the hidden dialog does not hold the focus')
  await page.unroute(keys)
  await signInAgain(user)
  const limit = dialog.getByRole('group', { name: 'New limit' })
  await limit.waitFor()
  t.equal(await page.title(), 'API keys · Tollgate')
  t.equal(await name.inputValue(), 'long thought about')
  t.ok(await dialog.getByRole('checkbox', { name: 'llm/other' }).isChecked())
  t.equal(await dialog.getByRole('alert').count(), 0)
  await isAccessible(t, page, 'the form after signing in again')
  await limit.getByLabel('Name').fill('little')
  await limit.getByLabel('In each').fill('day')
  t.equal(await limit.getByLabel('At most').inputValue(), '12')
  // The table is read again when the key is made.
  await refuse(`${keys}/search`)
  await dialog.getByRole('button', { name: 'Create key' }).click()
  t.match(await page.getByTestId('key').textContent(), /^sk-/, 'a key outlives the session')
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByText('Your session has ended').waitFor()
  await page.unroute(`${keys}/search`)
  await signInAgain(user)
  await page.getByText('little: 12 tokens per day').waitFor()

  await refuse(keys)
  await fill()
  await page.unroute(keys)
  await signInAgain(other)
  await page.getByText('You have no active key').waitFor()
  t.equal(await name.inputValue(), '', 'nobody else gets it')
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

test('a token that has expired is told of', async (t, { gateway, ...shared }) => {
  const { page, complaints } = await withOwnClock(t, shared)
  await page.goto(`${gateway.url}/console`)
  const exp = Math.floor(Date.now() / 1_000) + 60
  await page.getByLabel('Identity token').fill(await issuer.sign({ sub: 'ada', exp }))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('It expires in').waitFor()
  // The page of this test's API calls nothing that would end the session.
  await page.getByRole('link', { name: 'API reference' }).click()
  await page.clock.runFor(70_000)
  await page.getByText('Your token has expired').waitFor()
  t.equal(await page.getByText('It expires').count(), 0)
  t.strictSame(complaints, [])
})

test('a wrong clock expires no token, and shows no past time as a future one', async (t, world) => {
  const { gateway } = world
  const { page, complaints } = await withOwnClock(t, world, 3_600_000)
  await page.goto(`${gateway.url}/console/keys`)
  const exp = Math.floor(Date.now() / 1_000) + 1_800
  const token = await issuer.sign({ sub: 'ada', exp, groups: ['team'] })
  const body = JSON.stringify({ name: 'fresh', subscription: 'plenty' })
  t.equal((await gateway.ask('/v1/api-keys', token, { method: 'POST', body })).status, 201)
  for (const isAgain of [false, true]) {
    if (isAgain) await page.reload()
    else {
      await page.getByLabel('Identity token').fill(token)
      await page.getByRole('button', { name: 'Sign in' }).click()
    }
    await page
      .getByRole('row', { name: 'fresh' })
      .getByText(/^\d+ seconds? ago$/)
      .waitFor()
    t.equal(await page.getByText(/Your token/).count(), 0)
  }
  t.strictSame(complaints, [])
})

test('what is no token is not sent', async (t, { page, gateway }) => {
  const user = gateway.newUser()
  await page.goto(`${gateway.url}/console`)
  const form = page.getByLabel('Identity token')
  for (const wrong of ['sk-tg-abc…', 'token and more']) {
    await form.fill(wrong)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText(/^This is no token: /).waitFor()
    t.equal(await form.inputValue(), wrong, 'it can be corrected')
  }
  await form.fill(` Bearer token-${user} `)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  const told = 'document.activeElement.textContent'
  t.equal(await page.evaluate(told), 'You have signed out.', 'it has the focus')
})

test('the page is there while the gateway does not say how to sign in', async (t, world) => {
  const { gateway } = world
  const { page, complaints, expected } = await withOwnClock(t, world)
  expected.add(503)
  let json: object = { providers: [], unavailable: ['School'], keepsToken: true }
  let status = 503
  await page.route('**/console/sign-in', (route) => route.fulfill({ status, json }))
  await page.goto(`${gateway.url}/console`)
  await page.getByText('The gateway does not say now which identity providers').waitFor()
  await page.getByLabel('Identity token').waitFor()
  status = 200
  await page.clock.runFor(5_000)
  await page.getByText('School: this identity provider does not respond').waitFor()
  await isAccessible(t, page, 'a provider that does not respond')
  json = { providers: [{ issuer: 'https://i', name: 'School', page: 'https://i/' }] }
  await page.clock.runFor(5_000)
  await page.getByRole('button', { name: 'Sign in with School' }).waitFor()
  t.equal(await page.getByText('does not respond').count(), 0)
  t.strictSame(complaints, [])
})

test('a provider signs in nobody while the gateway is away', async (_t, world) => {
  const { gateway, page: own } = world
  // Not the watched page: the browser writes the lost request to its log.
  const page = await own.context().newPage()
  const back = `${gateway.url}/console/signed-in`
  const address = `${back}?${new URLSearchParams({ redirect_uri: back, code: 'x' })}`
  const json = { providers: [{ issuer: 'https://i', name: 'School', page: address }] }
  await page.route('**/console/sign-in', (route) =>
    route.request().method() === 'POST' ? route.abort() : route.fulfill({ json }),
  )
  await page.goto(`${gateway.url}/console`)
  await page.getByRole('button', { name: 'School' }).click()
  await page.getByRole('alert').getByText('The gateway cannot be reached.').waitFor()
})

test('a reload while the gateway restarts needs no new token', async (t, world) => {
  const { gateway } = world
  const { page, expected } = await withOwnClock(t, world)
  expected.add(503)
  await page.goto(`${gateway.url}/console/keys`)
  const signIn = async (user: string) => {
    await page.getByLabel('Identity token').fill(`token-${user}`)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }
  const user = gateway.newUser()
  await signIn(user)
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  const error = { message: 'The store is away.', type: 'server_error', code: 'store_unavailable' }
  await page.route('**/v1/me', (route) => route.fulfill({ status: 503, json: { error } }))
  await page.reload()
  await page.getByText('This page tries again every 5 seconds.').waitFor()
  await isAccessible(t, page, 'a sign-in that is tried again')
  await page.unroute('**/v1/me')
  await page.clock.runFor(5_000)
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  await page.getByText(user, { exact: true }).waitFor()

  await page.route('**/v1/me', (route) => route.fulfill({ status: 503, json: { error } }))
  await page.reload()
  await page.getByText('This page tries again every 5 seconds.').waitFor()
  await signIn(gateway.newUser())
  await page.getByText('This page tries again').waitFor({ state: 'detached' })
  await page.unroute('**/v1/me')
  await page.clock.runFor(10_000)
  t.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0, 'not as somebody else')
})

test('no earlier token is tried again after another sign-in was begun', async (t, world) => {
  const { gateway } = world
  const { page, expected } = await withOwnClock(t, world)
  expected.add(503)
  const error = { message: 'The store is away.', type: 'server_error', code: 'store_unavailable' }
  const isAway = { status: 503, json: { error } }
  const back = `${gateway.url}/console/signed-in`
  const address = `${back}?${new URLSearchParams({ redirect_uri: back, code: 'x' })}`
  const provider = { issuer: 'https://i', name: 'School', page: address }
  await page.route('**/console/sign-in', (route) =>
    route.fulfill(
      route.request().method() === 'POST'
        ? { status: 503, json: { error: { ...error, message: 'The provider is away.' } } }
        : { json: { providers: [provider], keepsToken: true } },
    ),
  )
  await page.goto(`${gateway.url}/console/keys`)
  await page.getByLabel('Identity token').fill(`token-${gateway.newUser()}`)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()

  await page.goto(`${back}?error=forged`)
  await page.clock.runFor(2_000)
  await page.getByText('This sign-in was not begun in this tab; begin again.').waitFor()
  t.equal(await page.getByText('This page tries again').count(), 0, 'another attempt is no use')

  await page.route('**/v1/me', (route) => route.fulfill(isAway))
  await page.reload()
  await page.getByText('This page tries again every 5 seconds.').waitFor()
  await page.getByRole('button', { name: 'School' }).click()
  await page.getByRole('alert').getByText('The provider is away.').waitFor()
  await page.unroute('**/v1/me')
  await page.clock.runFor(10_000)
  t.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0, 'not as somebody else')
})

test('the page works in a browser that stores nothing', async (_t, { page, gateway }) => {
  await page.addInitScript(`for (const name of ['sessionStorage', 'localStorage'])
    Object.defineProperty(window, name, {
      get() { throw new DOMException('Access is denied for this document.', 'SecurityError') },
    })`)
  const user = gateway.newUser()
  await page.goto(`${gateway.url}/console/keys`)
  await page.getByLabel('Identity token').fill(`token-${user}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('You have no active key').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  const back = `${gateway.url}/console/signed-in`
  const address = `${back}?${new URLSearchParams({ redirect_uri: back, code: 'x' })}`
  const json = { providers: [{ issuer: 'https://i', name: 'School', page: address }] }
  await page.route('**/console/sign-in', (route) => route.fulfill({ json }))
  await page.reload()
  await page.getByLabel('Identity token').waitFor()
  await page.getByRole('button', { name: 'School' }).click()
  await page.getByText('requires the storage of this tab, which the browser blocks.').waitFor()
})

test('an increase is in force until the end by the clock of the service', async (t, world) => {
  const { gateway } = world
  const { page } = await withOwnClock(t, world, 3_600_000)
  const at = (ms: number) => new Date(Date.now() + ms).toISOString()
  const limit = {
    ...{ subscription: 'plenty', model: null, name: 'funds', kind: 'cost', window: 'month' },
    ...{ limit: '200', scope: 'user' },
  }
  const grantedUntil = at(1_800_000)
  const request = {
    ...{ ...limit, id: 'x', user: 'ada', reason: 'a deadline', until: grantedUntil },
    ...{ createdAt: at(-9e6), state: 'approved', decidedBy: 'admin', decidedAt: at(-8e6) },
    ...{ grantedLimit: '200', grantedUntil },
  }
  const present = {
    ...{ ...limit, used: '0', remaining: '200', percentLeft: 100, enforced: true },
    ...{ startsAt: at(-9e8), resetsAt: at(9e8), increasedUntil: grantedUntil },
  }
  const list = (data: object[]) => ({ json: { object: 'list', data, has_more: false } })
  await page.route('**/v1/limit-requests?*', (route) => route.fulfill(list([request])))
  await page.route('**/v1/limits', (route) => route.fulfill(list([present])))
  await page.goto(`${gateway.url}/console/budgets`)
  await page.getByLabel('Identity token').fill(`token-${gateway.newUser()}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  const own = page.getByRole('region', { name: 'Your requests' })
  await own.getByRole('row').filter({ hasText: 'a deadline' }).getByText('approved').waitFor()
  await page.getByRole('link', { name: 'Ask for more of funds' }).click()
  const earliest = await page.getByLabel('Until').getAttribute('min')
  const aheadMs = Date.parse(`${earliest}+01:00`) - Date.now()
  t.ok(Math.abs(aheadMs) < 120_000, `an increase can begin at ${earliest}`)
})

test('what keys have used is read again', async (t, world) => {
  const { gateway } = world
  const { page } = await withOwnClock(t, world)
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  let tokens = 5
  const zero = { answers: 0, refusals_approximate: 0, input_tokens: 0, output_tokens: 0 }
  await page.route('**/v1/usage?*', (route) =>
    route.fulfill({
      json: { data: [{ ...zero, key_id: id, total_tokens: tokens }], has_more: false, gaps: [] },
    }),
  )
  await page.goto(`${gateway.url}/console/keys`)
  await page.getByLabel('Identity token').fill(`token-${user}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  const row = page.getByRole('row', { name: 'test' })
  await row.getByRole('cell', { name: '5', exact: true }).waitFor()
  tokens = 77
  await page.clock.runFor(60_000)
  await row.getByRole('cell', { name: '77', exact: true }).waitFor()
})

test('a fault of a page leaves the others', async (t, { page, gateway }) => {
  // Not the watched page: React writes the fault to its log.
  const other = await page.context().newPage()
  await other.route('**/v1/api-keys/other-version', (route) => route.fulfill({ json: {} }))
  await other.goto(`${gateway.url}/console/keys/other-version`)
  await other.getByLabel('Identity token').fill(`token-${gateway.newUser()}`)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByRole('alert').getByText('This page has failed').waitFor()
  await other.getByRole('button', { name: 'Reload the page' }).waitFor()
  await other.getByRole('link', { name: 'Models' }).click()
  await other.getByRole('row', { name: 'llm/sim' }).first().waitFor()
  t.equal(await other.getByRole('alert').count(), 0)
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
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Next', 'at the end too')
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
