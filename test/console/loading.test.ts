import type { Page, Route } from 'playwright-core'
import { consoleTests } from '../support/console.ts'
import { poll } from '../support/poll.ts'

const test = consoleTests()

/** Holds the requests for an address until they are let go; then they reach the service. */
async function hold(page: Page, address: string) {
  const held: Route[] = []
  await page.route(address, (route) => void held.push(route))
  return {
    held,
    async letGo() {
      await page.unroute(address)
      for (const route of held.splice(0)) await route.continue().catch(() => undefined)
    },
  }
}

test('a page that is read again and again waits for a slow gateway', async (t, world) => {
  const { page, gateway, signIn } = world
  await page.clock.install()
  const explain = await hold(page, '**/v1/explain')
  await signIn(gateway.newUser(), 'models/llm/sim')
  await poll(() => explain.held.length === 1, 'the limits are asked for')
  await page.clock.runFor(30_000)
  t.equal(explain.held.length, 1, 'not again before the response')
  await explain.letGo()
  const left = page.getByRole('region', { name: 'What is left' })
  await left.getByText(/left of .* per hour/).waitFor()
  const [again] = await Promise.all([page.waitForRequest(/explain/), page.clock.runFor(5_000)])
  t.ok(again, 'but afterwards')
})

test('what belongs to another question is not shown for long', async (t, world) => {
  const { page, gateway, signIn } = world
  await signIn(gateway.newUser(), 'explain?model=llm/nothing')
  await page.getByText('It would be refused').waitFor()
  const explain = await hold(page, '**/v1/explain')
  await page.getByLabel('Model').fill('llm/sim')
  await page.getByRole('button', { name: 'Would it pass?' }).click()
  await page.getByRole('status', { name: 'Loading' }).waitFor()
  t.equal(await page.getByText('It would be refused').count(), 0)
  await explain.letGo()
  await page.getByText('It would pass').waitFor()
})

test('a page recovers by itself', async (t, { page, gateway, signIn, expected }) => {
  expected.add(503)
  await page.clock.install()
  await signIn(gateway.newUser(), 'keys')
  const error = { message: 'The key store is unavailable.', code: 'store_unavailable' }
  await page.route('**/v1/models', (route) => route.fulfill({ status: 503, json: { error } }))
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByRole('alert').getByText(error.message).waitFor()
  await page.unroute('**/v1/models')
  await page.clock.runFor(10_000)
  await page.getByRole('row', { name: 'llm/sim' }).waitFor()
  t.equal(await page.getByRole('alert').count(), 0)
})

test('one that is read every minute recovers as soon', async (t, world) => {
  const { page, gateway, signIn, expected } = world
  expected.add(503)
  await page.clock.install()
  await signIn(gateway.newUser(), 'keys')
  const error = { message: 'The ledger is unavailable.', code: 'store_unavailable' }
  const usage = /\/v1\/usage\?/
  await page.route(usage, (route) => route.fulfill({ status: 503, json: { error } }))
  await page.getByRole('link', { name: 'Usage' }).click()
  const alert = page.getByRole('alert').getByText(error.message)
  await alert.first().waitFor()
  await page.unroute(usage)
  const again = page.waitForRequest(usage, { timeout: 5_000 }).catch(() => undefined)
  await page.clock.runFor(10_000)
  t.ok(await again)
  await poll(async () => (await alert.count()) === 0, 'nothing is reported')
})

test('a page says what to do about a refusal', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(404).add(429).add(503)
  await signIn(gateway.newUser(), 'keys')
  const message = 'Too many requests; wait for the time in retry-after.'
  for (const [status, code, advice] of [
    [429, 'too_many_requests', 'Try again in 12 seconds.'],
    [429, 'too_many_keys', 'Revoke keys that you no longer use'],
    [503, 'store_unavailable', 'Try again in a few seconds.'],
    [404, 'not_found', 'It may have been removed'],
  ] as const) {
    const headers = { ...(code === 'too_many_requests' && { 'retry-after': '12' }) }
    const json = { error: { code, message } }
    await page.route('**/v1/models', (route) => route.fulfill({ status, headers, json }))
    await page.getByRole('link', { name: 'Models' }).click()
    const alert = page.getByRole('alert')
    await alert.getByText(advice).waitFor()
    const names = (await alert.innerText()).includes('retry-after')
    t.equal(names, code !== 'too_many_requests', 'no header is named')
    await page.unroute('**/v1/models')
    await page.getByRole('link', { name: 'API keys' }).click()
  }
})

test('refusals that cannot be read are not called none', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(503)
  const error = { message: 'The store is away.', type: 'server_error', code: 'store_unavailable' }
  await page.route('**/v1/refusals?*', (route) => route.fulfill({ status: 503, json: { error } }))
  await signIn(gateway.newUser(), 'explain')
  const panel = page.getByRole('region', { name: 'A refused request' })
  await panel.getByRole('alert').getByText('The store is away.').waitFor()
  t.equal(await panel.getByText(/was refused/).count(), 0)
})

test('times go on although nothing is read again', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await gateway.mint({ user })
  await page.clock.install()
  // A response would show that the page's clock is ahead, and set it right; one may still be on its way below.
  await page.route('**/v1/**', async (route) => {
    const response = await route.fetch()
    const { date: _, ...headers } = response.headers()
    await route.fulfill({ response, headers })
  })
  // What is searched for is read once.
  await signIn(user, 'keys?find=test')
  const row = page.getByRole('row', { name: 'test' })
  await row.getByText(/^\d+ seconds? ago$/).waitFor()
  // Never responded to: an aborted request would be a complaint of the page.
  await page.route('**/v1/**', () => {})
  await page.clock.runFor(185_000)
  await row.getByText('3 minutes ago').waitFor()
  t.pass('three minutes later')
})

test('a key that is revoked elsewhere leaves the table', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  await page.clock.install()
  await signIn(user)
  await page.getByRole('row', { name: 'test' }).waitFor()
  const revoked = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`, { method: 'DELETE' })
  t.equal(revoked.status, 200)
  await page.clock.runFor(30_000)
  await page.getByText('You have no active key').waitFor()
})

test('whoever returns to the page sees what has changed', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  await signIn(user)
  await page.getByRole('row', { name: 'test' }).waitFor()
  const revoked = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`, { method: 'DELETE' })
  t.equal(revoked.status, 200)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await page.getByText('You have no active key').waitFor()
})

/** Sums how far content was moved that the user had not just acted on (Cumulative Layout Shift). */
const sumShifts = `window.shifted = 0
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value
  }).observe({ type: 'layout-shift', buffered: true })`

test('what arrives late does not move what is shown', async (t, world) => {
  const { page, gateway, signIn } = world
  await signIn('admin', 'overview?owner=me')
  await page.addInitScript(sumShifts)
  for (const [path, late, first, last] of [
    ['overview?owner=me', '**/v1/usage?*', 'What is left', 'Tokens by day'],
    ['overview', '**/v1/admin/state', 'Tokens by day', 'Time to the first byte'],
    ['budgets?owner=*', '**/v1/admin/limits?*', 'Open requests', 'Increases in force'],
    ['explain?model=llm/sim', '**/v1/explain', 'A hypothetical request', 'The steps'],
  ] as const) {
    await page.goto('about:blank')
    const responses = await hold(page, late)
    await page.goto(`${gateway.url}/console/${path}`)
    await page.getByRole('region', { name: first }).waitFor()
    await responses.letGo()
    await page.getByRole('region', { name: last }).waitFor()
    await page.waitForLoadState('networkidle')
    const shifted = (await page.evaluate('shifted')) as number
    t.ok(shifted < 0.06, `${path}: ${shifted}`)
  }
})

test('a filter of the budgets that waits leaves the increases where they are', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin', 'budgets?owner=*')
  const increases = page.getByRole('region', { name: 'Increases in force' })
  await increases.waitFor()
  const limits = await hold(page, '**/v1/admin/limits?*')
  await page.getByLabel('Subscription', { exact: true }).fill('plenty')
  await page.getByRole('status', { name: 'Loading' }).waitFor()
  t.ok(await increases.isVisible())
  await limits.letGo()
})
