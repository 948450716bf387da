import root from 'tap'
import { consoleTests, isAccessible } from '../support/console.ts'
import { startOpenidProvider } from '../support/openid-provider.ts'
import { keepPicture } from '../support/pictures.ts'

const provider = await startOpenidProvider(root)
provider.groups.set('ada', ['team'])

const test = consoleTests(
  {
    env: {
      OIDC_ISSUER_URL: provider.url,
      OIDC_CLIENT_ID: 'page, tollgate',
      API_RATE_LIMIT: '60/1m',
      OIDC_DISPLAY_NAMES: `https://other.example=Other,${provider.url}=Ada's school`,
    },
  },
  [provider.url],
)

const button = "Sign in with Ada's school"

test('a person signs in at the identity provider', async (t, { page, gateway }) => {
  provider.welcome('ada', `${gateway.url}/console/signed-in`)
  const addresses: string[] = []
  page.on('framenavigated', (frame) => addresses.push(frame.url()))
  await page.goto(`${gateway.url}/console/keys?status=all`)
  await page.getByRole('button', { name: button }).waitFor()
  await isAccessible(t, page, 'the sign-in with a provider')
  await keepPicture(page, 'sign-in')
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  await page.getByText('ada', { exact: true }).waitFor()
  t.equal(page.url(), `${gateway.url}/console/keys?status=all`, 'back where it began')
  const kept = await page.evaluate('JSON.stringify([localStorage, document.cookie])')
  for (const text of [String(kept), ...addresses]) t.notMatch(text, /eyJ/, 'a token')
  const ofTab = await page.evaluate('JSON.stringify(sessionStorage)')
  t.match(String(ofTab), /^\{"tollgate-token":/, 'only the token, and only in this tab')
  t.notMatch(String(ofTab), 'verifier')
  await page.reload()
  await page.getByText('ada', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByLabel('Name').fill('of ada')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByTestId('key').waitFor()
})

test('the page says that it signs in, while the provider is slow', async (t, world) => {
  const { page, gateway } = world
  provider.welcome('ada', `${gateway.url}/console/signed-in`)
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route('**/console/sign-in', async (route) => {
    if (route.request().method() === 'POST') await held
    await route.continue()
  })
  await page.goto(`${gateway.url}/console/models`)
  await page.getByRole('button', { name: button }).click()
  await page.getByText(/^Signing in at /).waitFor()
  t.equal(await page.getByLabel('Identity token').count(), 0, 'there is nothing to fill in')
  letGo()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
})

test('a form outlives the sign-in with a provider', async (t, { page, gateway, expected }) => {
  expected.add(401)
  provider.welcome('ada', `${gateway.url}/console/signed-in`)
  await page.goto(`${gateway.url}/console/keys`)
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('button', { name: 'New key' }).click()
  const dialog = page.getByRole('dialog')
  const name = dialog.locator('input[name=name]')
  await name.fill('long thought about')
  const error = { message: 'The token has expired.', type: 'authentication_error', code: 'x' }
  await page.route('**/v1/api-keys', (route) => route.fulfill({ status: 401, json: { error } }))
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('Sign in again as ada, and go on with the form.').waitFor()
  await page.unroute('**/v1/api-keys')
  const exchanges: string[] = []
  page.on('request', (request) => {
    if (request.method() === 'POST' && request.url().endsWith('/sign-in'))
      exchanges.push(request.postData() ?? '')
  })
  const opened = page.context().waitForEvent('page')
  await page.getByRole('button', { name: button }).click()
  const other = await opened
  await other.getByText('Go on in the tab with your form, and close this one.').waitFor()
  t.equal(other.url(), `${gateway.url}/console`, 'the code is not in the address any more')
  t.equal(await other.evaluate('sessionStorage.length'), 0, 'no other tab has the token')
  await name.waitFor()
  t.equal(await name.inputValue(), 'long thought about')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  t.match(await page.getByTestId('key').textContent(), /^sk-/)
  await page.getByRole('button', { name: 'I have copied it' }).click()
  t.equal(exchanges.length, 1)

  await page.getByRole('button', { name: 'New key' }).click()
  await page.route('**/v1/api-keys', (route) => route.fulfill({ status: 401, json: { error } }))
  await name.fill('another')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('Sign in again as ada, and go on with the form.').waitFor()
  const closed = page.context().waitForEvent('page')
  await page.getByRole('button', { name: button }).click()
  await (await closed).close()
  await other.goto(`${gateway.url}/console/signed-in?code=stolen&state=forged`)
  await other.getByText('This sign-in was not begun in this tab; begin again.').waitFor()
  t.equal(exchanges.filter((each) => each.includes('stolen')).length, 0, 'no forged address')
})

test('an answer to another sign-in is not accepted', async (t, { page, gateway, expected }) => {
  await page.goto(`${gateway.url}/console/signed-in?code=stolen&state=forged`)
  await page.getByText('This sign-in was not begun in this tab; begin again.').waitFor()
  t.equal(page.url(), `${gateway.url}/console`, 'the code is not in the address any more')
  const refusal = 'error=access_denied&error_description=<b>no</b>'
  await page.goto(`${gateway.url}/console/signed-in?${refusal}`)
  await page.getByText('This sign-in was not begun in this tab; begin again.').waitFor()
  await page.evaluate(
    `sessionStorage.setItem('tollgate-sign-in',
      '{"state":"s","issuer":"i","back":"/console/signed-in","address":"/console"}')`,
  )
  await page.goto(`${gateway.url}/console/signed-in?${refusal}&state=s`)
  await page.getByText('The identity provider says: <b>no</b>').waitFor()
  expected.add(401)
  const post = (body: object) =>
    gateway.ask('/console/sign-in', undefined, { method: 'POST', body: JSON.stringify(body) })
  const verifier = 'x'.repeat(43)
  const known = { issuer: provider.url, code: 'stolen', verifier }
  t.equal((await post(known)).status, 401)
  t.match(JSON.parse((await post(known)).text), { error: { message: /begin again/ } })
  t.equal((await post({ ...known, issuer: 'https://evil.example' })).status, 400)
  t.equal((await post({ ...known, verifier: 'short' })).status, 400)
})

// The last test, because nobody can sign in from this address for a minute afterwards.
test('an address that guesses codes is refused before the provider is asked', async (t, {
  gateway,
}) => {
  const known = { issuer: provider.url, code: 'guessed', verifier: 'x'.repeat(43) }
  const body = JSON.stringify(known)
  const statuses = new Map<number, number>()
  for (let i = 0; i < 150; i += 1) {
    const { status, headers } = await gateway.ask('/console/sign-in', undefined, {
      method: 'POST',
      body,
    })
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (status === 429) t.match(headers.get('retry-after'), /^\d+$/)
  }
  t.strictSame([...statuses.keys()].sort(), [401, 429])
  t.ok((statuses.get(401) ?? 0) <= 120, `${statuses.get(401)} were asked`)
})
