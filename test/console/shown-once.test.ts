import type { Page } from 'playwright-core'
import { consoleTests, cutOnce, isAccessible } from '../support/console.ts'

const test = consoleTests()

const keys = '**/v1/api-keys'

/** Fills the form for a new key, and sends it. */
async function send(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill(name)
  await page.keyboard.press('Enter')
}

test('a key is copied without https too', async (t, { page, gateway, signIn }) => {
  await page.addInitScript(
    "Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined })",
  )
  await signIn(gateway.newUser())
  await send(page, 'copied')
  const key = await page.getByTestId('key').textContent()
  await page.getByRole('button', { name: 'Copy key' }).click()
  await page.getByRole('button', { name: 'Copied', exact: true }).waitFor()
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Copied', 'still the focus')
  await page.evaluate("document.execCommand = () => false; document.title = 'x'")
  await page.getByRole('button', { name: 'Copy line' }).first().click()
  await page.getByRole('button', { name: 'Not copied: select it' }).waitFor()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  const find = page.getByLabel('Find')
  await find.focus()
  await page.keyboard.press('Control+V')
  t.equal(await find.inputValue(), key)
})

test('a key whose response was lost is created once', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(502)
  const user = gateway.newUser()
  await signIn(user)
  let lost = ''
  await page.route(keys, async (route) => {
    lost = JSON.parse(await (await route.fetch()).text()).key
    await route.fulfill({ status: 502, body: 'upstream reset' })
  })
  await send(page, 'lost')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('alert').getByText('The gateway responded with 502.').waitFor()
  t.equal(await dialog.getByLabel('Name').inputValue(), 'lost', 'the form keeps its input')
  await page.unroute(keys)
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const key = (await page.getByTestId('key').textContent()) ?? ''
  t.not(key, lost)
  t.equal((await gateway.ask('/v1/models', key)).status, 200)
  t.equal((await gateway.ask('/v1/models', lost)).status, 401, 'nobody knows the first secret')
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByText('1 key', { exact: true }).waitFor()
})

test('a key whose response was cut is created once', async (t, { page, gateway, signIn }) => {
  await page.addInitScript(cutOnce('/v1/api-keys'))
  await signIn(gateway.newUser())
  await send(page, 'cut')
  const dialog = page.getByRole('dialog')
  const alert = dialog.getByRole('alert')
  await alert.getByText('The connection was lost before the end of the response.').waitFor()
  await alert.getByText('Try again.').waitFor()
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const key = (await page.getByTestId('key').textContent()) ?? ''
  t.equal((await gateway.ask('/v1/models', key)).status, 200)
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByText('1 key', { exact: true }).waitFor()
})

test('a key is shown although its form was closed', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser())
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route(keys, async (route) => {
    await held
    await route.continue()
  })
  await send(page, 'closed')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  letGo()
  t.match(await page.getByTestId('key').textContent(), /^sk-/)
})

test('leaving the page before a key is made does not lose it', async (t, {
  page,
  gateway,
  signIn,
}) => {
  await signIn(gateway.newUser(), 'models')
  for (const way of ['back', 'link']) {
    let letGo: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    await page.route(keys, async (route) => {
      await held
      await route.continue()
    })
    await page.getByRole('link', { name: 'API keys' }).click()
    await send(page, way)
    if (way === 'back') await page.goBack()
    else {
      await page.keyboard.press('Escape')
      await page.getByRole('link', { name: 'Models' }).click()
    }
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor()
    const asked = page.waitForEvent('dialog')
    const reload = page.evaluate('location.reload()').catch(() => undefined)
    const dialog = await asked
    t.equal(dialog.type(), 'beforeunload')
    await dialog.dismiss()
    await reload
    letGo()
    t.match(await page.getByTestId('key').textContent(), /^sk-/)
    await isAccessible(t, page, 'a key that was made meanwhile')
    await page.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByTestId('key').waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor()
    await page.unroute(keys)
  }
})

test('the end of a session loses no key of several that wait', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(401)
  await signIn(gateway.newUser(), 'reference')
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route(keys, async (route) => {
    await held
    await route.continue()
  })
  for (const name of ['first', 'second']) {
    await page.getByRole('link', { name: 'API keys' }).click()
    await send(page, name)
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'API reference' }).click()
    await page.getByRole('heading', { name: 'API reference', level: 1 }).waitFor()
  }
  const error = { code: 'credential_invalid', message: 'The token has expired.' }
  const refused = page.waitForResponse('**/v1/models')
  await page.route('**/v1/models', (route) => route.fulfill({ status: 401, json: { error } }))
  const made = ['first', 'second'].map((name) =>
    page.waitForResponse((response) => response.request().postData()?.includes(name) ?? false),
  )
  letGo()
  for (const response of await Promise.all(made)) await response.finished()
  await refused
  const dialog = page.getByRole('dialog')
  const shown = new Set<string>()
  for (const left of [1, 0]) {
    const key = (await page.getByTestId('key').textContent()) ?? ''
    t.match(key, /^sk-/)
    shown.add(key)
    if (left > 0) t.equal(await page.getByLabel('Identity token').count(), 0)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
  }
  t.equal(shown.size, 2)
  await page.getByText('Your session has ended').waitFor()
})

test('neither the back button nor a reload loses a key', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'models')
  await page.getByRole('link', { name: 'API keys' }).click()
  await send(page, 'kept')
  const key = page.getByTestId('key')
  const secret = await key.textContent()
  await page.evaluate('history.back()')
  await page.evaluate('new Promise((settle) => setTimeout(settle, 200))')
  t.equal(await key.textContent(), secret)
  const asked = page.waitForEvent('dialog')
  const reload = page.evaluate('location.reload()').catch(() => undefined)
  const dialog = await asked
  t.equal(dialog.type(), 'beforeunload')
  await dialog.dismiss()
  await reload
  t.equal(await key.textContent(), secret)
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await key.waitFor({ state: 'detached' })
  await page.goBack()
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor()
})

test('a form says that it is loading', async (t, { page, gateway, signIn }) => {
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route('**/v1/subscriptions', async (route) => {
    await held
    await route.continue()
  })
  await signIn(gateway.newUser(), 'keys?new=1')
  await page.getByRole('dialog').getByRole('status', { name: 'Loading' }).waitFor()
  letGo()
  await page.getByRole('dialog').getByLabel('Name').waitFor()
  t.pass('and then shows its fields')
})
