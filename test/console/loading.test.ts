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
