import type { Locator, Page } from 'playwright-core'
import { act, consoleTests, isAccessible } from '../support/console.ts'
import { subscription } from '../support/documents.ts'
import { chatPath, defaultResources } from '../support/gateway.ts'
import { keepPicture } from '../support/pictures.ts'

const administrators = { groups: ['team', 'tollgate-admins'] }

const test = consoleTests({
  resources: (backendUrl) => [
    ...defaultResources(backendUrl),
    subscription('narrow', { groups: ['team'] }, { 'llm/other': [[1_000, '1h']] }),
    subscription('both', administrators, { 'llm/sim': [[9, '1h']], 'llm/other': [[9, '1h']] }),
  ],
})

const hostile = '<img src=x onerror="document.title=1"> {{7*7}} "\'>'

/** Fills the form for a new key, and returns the key. */
async function create(page: Page, name: string): Promise<string> {
  await page.getByRole('button', { name: 'New key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill(name)
  await dialog.getByLabel('Subscription').selectOption('plenty')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  return (await dialog.getByTestId('key').textContent()) ?? ''
}

test('a person makes a key, uses it and revokes it', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await signIn(user)
  await page.getByText('You have no active key').waitFor()
  const key = await create(page, 'my laptop')
  await page.locator('[role=dialog] :focus', { hasText: 'This is the only time' }).waitFor()
  t.equal((await gateway.ask(chatPath, key, chat())).status, 200)
  const snippet = await page.getByTestId('snippet').textContent()
  t.ok(snippet?.includes(`${gateway.url}/v1/chat/completions`))
  t.notOk(snippet?.includes(key), 'the lines take it from the environment')
  await isAccessible(t, page, 'the new key')
  await page.getByRole('button', { name: 'I have copied it' }).click()

  await act(page, 'Revoke', 'my laptop')
  await isAccessible(t, page, 'the question')
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click()
  await page.getByText('Revoked everywhere: my laptop').waitFor()
  t.equal((await gateway.ask(chatPath, key, chat())).status, 401)
  await page.getByText('You have no active key').waitFor()
  t.notOk((await page.content()).includes(key), 'the key is nowhere on the page any more')
})

test('a person rotates a key, and the old secret works on', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const old = await gateway.mint({ user })
  await signIn(user)
  await act(page, 'Rotate', 'test')
  const dialog = page.getByRole('dialog')
  await dialog
    .getByText('Its id, subscription, restrictions and expiry stay as they are.')
    .waitFor()
  await isAccessible(t, page, 'the rotation')
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click()
  const key = (await dialog.getByTestId('key').textContent()) ?? ''
  await dialog.getByText(/The old secret works until/).waitFor()
  t.not(key, old.key)
  for (const each of [key, old.key]) {
    t.equal((await gateway.ask(chatPath, each, chat())).status, 200)
  }
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByText(/the old secret works until/).waitFor()
  t.notOk((await page.content()).includes(key), 'the key is nowhere on the page any more')

  await act(page, 'Rotate', 'test')
  await dialog.getByText('The secret that was replaced before ends').waitFor()
  await dialog.getByLabel('The present secret works for').selectOption('It ends at once')
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click()
  const newest = (await dialog.getByTestId('key').textContent()) ?? ''
  for (const [each, status] of [
    [newest, 200],
    [key, 401],
    [old.key, 401],
  ] as const) {
    t.equal((await gateway.ask(chatPath, each, chat())).status, status)
  }
})

test("a key's page has its labels in full", async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const labels = { [`team-${'x'.repeat(40)}`]: 'v'.repeat(60) }
  const body = JSON.stringify({ name: 'labelled', subscription: 'plenty', labels })
  const made = await gateway.ask('/v1/api-keys', `token-${user}`, { method: 'POST', body })
  await signIn(user, `keys/${JSON.parse(made.text).id}`)
  await page.getByText(/^team-x+=v+$/).waitFor()
  for (const width of [1_280, 360]) {
    await page.setViewportSize({ width, height: 700 })
    const fits = `document.querySelector('main .tag').scrollWidth <= document.querySelector('main .tag').clientWidth`
    t.ok(await page.evaluate(fits), `at ${width}`)
  }
})

test('a person edits name and labels', async (t, { page, gateway, expected, signIn }) => {
  expected.add(400)
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  await signIn(user)
  await act(page, 'Edit', 'test')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill('renamed')
  const labels = dialog.getByRole('textbox', { name: 'Labels' })
  await labels.fill('not a label')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText(/^Labels must have names like/).waitFor()
  await labels.fill(`team=search\n\n example.com/about = ${hostile}`)
  await isAccessible(t, page, 'the form')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Saved: renamed').waitFor()
  await page.getByText('team=search').waitFor()
  await page.getByText(`example.com/about=${hostile}`).waitFor()
  const { text } = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`)
  t.match(JSON.parse(text), {
    name: 'renamed',
    labels: { team: 'search', 'example.com/about': hostile },
  })
  await isAccessible(t, page, 'the table')
  await keepPicture(page, 'keys')
})

test('a key is restricted, and only an administrator lifts that', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(400).add(403)
  const user = gateway.newUser()
  await signIn(user)
  await page.getByRole('button', { name: 'New key' }).click()
  const dialog = page.getByRole('dialog')
  const create = dialog.getByRole('button', { name: 'Create key' })
  await create.click()
  await dialog.getByText('Name is required.').waitFor()
  await dialog.locator('[name=name]:focus').waitFor()
  await dialog.getByLabel('Name').fill('narrow')
  await dialog.getByLabel('Subscription').selectOption('plenty')
  await dialog.getByText('Restrictions').click()
  await dialog.getByRole('checkbox', { name: 'llm/other' }).check()
  const limits = dialog.getByLabel('Token limits')
  await limits.fill('5,000/1h\n\n100000 / 24h')
  await dialog.getByLabel('Networks').fill('127.0.0.1\n10.0.0.0/33')
  await dialog.getByRole('button', { name: 'Add a limit' }).click()
  const limit = dialog.getByRole('group', { name: 'New limit' })
  await limit.getByLabel('Name').fill('monthly')
  await limit.getByLabel('At most').fill('some')
  await limit.getByLabel('In each').fill('month')
  await limit.getByLabel('Models').fill('llm/sim, llm/other')
  await create.click()
  await limit.getByText('The amount must be a whole number from 1').waitFor()
  await limit.locator('input:focus').waitFor()
  await limit.getByLabel('At most').fill('2,000,000')
  await create.click()
  await dialog.getByText(/^Line 2 must be/).waitFor()
  await isAccessible(t, page, 'the restrictions')
  await keepPicture(page, 'restrictions')
  await dialog.getByLabel('Networks').fill('127.0.0.0/8')
  await create.click()
  const key = (await dialog.getByTestId('key').textContent()) ?? ''
  t.equal((await gateway.ask(chatPath, key, chat())).status, 403)
  t.equal((await gateway.ask('/llm/other/v1/chat/completions', key, chat('other'))).status, 200)
  await page.getByRole('button', { name: 'I have copied it' }).click()
  for (const text of [
    'only llm/other',
    'at most 5,000 tokens per hour, 100,000 tokens per 24 hours',
    'monthly: 2,000,000 tokens per month of llm/sim, llm/other',
    'from 127.0.0.0/8',
  ]) {
    await page.getByText(text, { exact: true }).waitFor()
  }

  await act(page, 'Edit', 'narrow')
  t.ok(await dialog.getByRole('checkbox', { name: 'llm/sim' }).isDisabled())
  await limits.fill('6000/1h\n100000/24h')
  const save = dialog.getByRole('button', { name: 'Save' })
  await save.click()
  await dialog
    .getByText(/^Only an administrator may loosen restrictions: Token limits must keep/)
    .waitFor()
  await limits.fill('1/1h\n100000/24h')
  const monthly = dialog.getByRole('group', { name: 'Limit monthly' })
  await monthly.getByLabel('In each').fill('week')
  await save.click()
  await monthly.getByText(/^Only an administrator may .*: The time must stay month/).waitFor()
  await monthly.getByLabel('In each').fill('month')
  await monthly.getByLabel('At most').fill('1000000')
  await save.click()
  await page.getByText('Saved everywhere: narrow').waitFor()
  const other = '/llm/other/v1/chat/completions'
  t.equal((await gateway.ask(other, key, chat('other'))).status, 429, 'in force')

  await signIn('admin', `keys?owner=${user}`)
  await act(page, 'Edit', 'narrow')
  await dialog.getByRole('checkbox', { name: 'llm/other' }).uncheck()
  await dialog.getByLabel('Further models').fill('llm/sim')
  await limits.fill('')
  await dialog.getByRole('button', { name: 'Remove monthly' }).click()
  await save.click()
  await page.getByText('Saved everywhere: narrow').waitFor()
  await page.getByText('only llm/sim', { exact: true }).waitFor()
  t.equal((await gateway.ask(chatPath, key, chat())).status, 200)
})

test('chosen models stay chosen in another subscription, as far as it has them', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await signIn(user)
  await page.getByRole('button', { name: 'New key' }).click()
  const dialog = page.getByRole('dialog')
  const paying = dialog.getByLabel('Subscription')
  const [sim, other] = ['llm/sim', 'llm/other'].map((name) =>
    dialog.getByRole('checkbox', { name }),
  ) as [Locator, Locator]
  await dialog.getByLabel('Name').fill('moved')
  await paying.selectOption('plenty')
  await dialog.getByText('Restrictions').click()
  await sim.check()
  await paying.selectOption('narrow')
  const told = dialog.getByText('The subscription does not have llm/sim.')
  await told.and(dialog.getByText('Unless you choose another model')).waitFor()
  await isAccessible(t, page, 'a choice that is not offered')
  await keepPicture(page, 'dropped-model')
  await paying.selectOption('plenty')
  t.ok(await sim.isChecked(), 'the choice is remembered')
  await other.check()
  await paying.selectOption('narrow')
  t.equal(await told.innerText(), 'The subscription does not have llm/sim.')
  t.ok(await other.isChecked())
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByText('only llm/other', { exact: true }).waitFor()
})

test('a label that is given twice is not dropped', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser())
  await page.getByRole('button', { name: 'New key' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.locator('input[name=name]').fill('labelled')
  const labels = dialog.getByLabel('Labels')
  await labels.fill('team=search\nteam=ranking')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await dialog.getByText('Labels must have different names.').waitFor()
  t.equal(await labels.inputValue(), 'team=search\nteam=ranking')
  await labels.fill('team=search\nuse=ranking')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page.getByTestId('key').waitFor()
})

test('models of one name are told apart', async (t, { page, gateway, signIn }) => {
  const record = (name: string, models: readonly string[]) => ({
    ...{ subscription_id_header: name, subscription_description: '', display_name: '' },
    ...{ priority: 0, organization_id: '' },
    model_refs: models.map((model) => {
      const [namespace, own] = model.split('/')
      return { namespace, name: own, token_rate_limits: [{ limit: 5, window: '1h' }] }
    }),
  })
  const records = [record('a', ['one/sim', 'two/sim']), record('b', ['one/big'])]
  await page.route('**/v1/subscriptions', (route) => route.fulfill({ json: records }))
  await signIn(gateway.newUser())
  await page.getByRole('button', { name: 'New key' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('term').first().waitFor()
  t.strictSame(await dialog.getByRole('term').allInnerTexts(), ['one/sim', 'two/sim'])
  await dialog.getByLabel('Subscription').selectOption('b')
  t.strictSame(await dialog.getByRole('term').allInnerTexts(), ['one/big'])
})

test('a choice in a form stays when its subscription arrives', async (t, world) => {
  const { page, gateway, signIn } = world
  const name = `late-${gateway.newUser()}`
  const body = { name, subscription: 'both', models: [{ namespace: 'llm', name: 'sim' }] }
  const made = { method: 'POST', body: JSON.stringify(body) }
  const { text } = await gateway.ask('/v1/api-keys', 'token-admin', made)
  await signIn('admin', `keys?find=${name}`)
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route('**/v1/subscriptions', async (route) => {
    await held
    await route.continue()
  })
  await act(page, 'Edit', name)
  const sim = page.getByRole('dialog').getByRole('checkbox', { name: 'llm/sim' })
  await sim.uncheck()
  letGo()
  await page.getByRole('dialog').getByRole('checkbox', { name: 'llm/other' }).waitFor()
  t.notOk(await sim.isChecked())
  await gateway.ask(`/v1/api-keys/${JSON.parse(text).id}`, 'token-admin', { method: 'DELETE' })
})

test('an edit sends only what was changed', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const key = async (method: string, path: string, body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    const { status, text } = await gateway.ask(`/v1/api-keys${path}`, `token-${user}`, init)
    t.ok(status < 300, text)
    return JSON.parse(text)
  }
  const labels = { team: ' search ', about: 'x' }
  const { id } = await key('POST', '', { name: 'old', subscription: 'plenty', labels })
  // The name of a key from before names had a maximum.
  const long = 'n'.repeat(200)
  await page.route('**/v1/api-keys/search', async (route) => {
    const found = await (await route.fetch()).json()
    const data = found.data.map((each: object) => ({ ...each, name: long }))
    await route.fulfill({ json: { ...found, data } })
  })
  const sent: unknown[] = []
  page.on('request', (request) => {
    if (request.method() === 'PATCH') sent.push(request.postDataJSON())
  })
  await signIn(user)
  const dialog = page.getByRole('dialog')
  const save = dialog.getByRole('button', { name: 'Save' })
  await act(page, 'Edit', long)
  await save.click()
  await page.getByText(`Nothing was changed: ${long}`).waitFor()
  t.strictSame(sent, [])

  await act(page, 'Edit', long)
  await key('PATCH', `/${id}`, { labels: { ...labels, meanwhile: 'yes' } })
  await dialog.getByLabel('Description').fill('what it is for')
  await save.click()
  await page.getByText(`Saved: ${long}`).waitFor()
  t.strictSame((await key('GET', `/${id}`)).labels, { ...labels, meanwhile: 'yes' })

  await page.getByText('meanwhile=yes').waitFor()
  await act(page, 'Edit', long)
  const lines = dialog.getByRole('textbox', { name: 'Labels' })
  await lines.fill((await lines.inputValue()).replace('about=x', 'about = y '))
  await save.click()
  await dialog.waitFor({ state: 'detached' })
  const expected = { ...labels, about: 'y', meanwhile: 'yes' }
  t.strictSame((await key('GET', `/${id}`)).labels, expected)
  t.strictSame(sent, [{ description: 'what it is for' }, { labels: expected }])
})

test('a change that is not in force everywhere is told of in the dialog', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(user)
  const propagation = {
    ...{ state: 'pending', replicas: 2, acknowledged: 1 },
    waitingFor: [`replica-2 ${hostile}`],
  }
  await page.route('**/v1/api-keys/*', async (route) => {
    if (route.request().method() !== 'DELETE') return route.continue()
    const answer = await route.fetch()
    return route.fulfill({ json: { ...(await answer.json()), propagation } })
  })
  await act(page, 'Revoke', 'test')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Revoke', exact: true }).click()
  await dialog.getByText('Revoked, and still spreading').waitFor()
  await dialog.getByText(`Waiting for replica-2 ${hostile}.`).waitFor()
  t.equal(await page.getByText('Revoked everywhere').count(), 0)
  await isAccessible(t, page, 'a pending revocation')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await dialog.waitFor({ state: 'detached' })
})

test('a key that is about to expire is told beforehand', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await gateway.mint({ user, expiresIn: '30d' })
  await signIn(user)
  await page.getByRole('cell', { name: /^test / }).waitFor()
  t.equal(await page.getByText('A key cannot be prolonged').count(), 0)
  await gateway.mint({ user, expiresIn: '3d' })
  await signIn(user, 'keys?find=nothing')
  await page.getByText('A key cannot be prolonged').waitFor()
  await isAccessible(t, page, 'a warning')
  await page.getByRole('button', { name: 'Show keys of every status' }).click()
  await page.getByText('soon', { exact: true }).waitFor()
  t.equal(await page.getByText('soon', { exact: true }).count(), 1)
})

test('names that look like markup are text', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(user)
  await create(page, hostile)
  await page.getByRole('button', { name: 'I have copied it' }).click()
  const link = page.getByRole('cell').getByRole('link', { name: hostile, exact: true })
  await link.waitFor()
  t.equal((await link.innerText()).trim(), hostile)
  t.equal(await page.locator('img').count(), 0)
  t.equal(await page.title(), 'API keys · Tollgate')
})

test('keys are found by name, by their beginning and by status', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  for (const name of ['alpha', 'beta']) {
    const body = JSON.stringify({ name, subscription: 'plenty' })
    await gateway.ask('/v1/api-keys', `token-${user}`, { method: 'POST', body })
  }
  await signIn(user, 'keys?find=bet')
  const rows = page.getByRole('row')
  await page.getByRole('link', { name: 'beta', exact: true }).waitFor()
  t.equal(await rows.count(), 2, 'the heading and one key: the address says what is sought')
  const prefix = await page.locator('td code').innerText()
  await page.getByLabel('Find').fill('')
  await page.getByRole('link', { name: 'alpha', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Name', exact: true }).click()
  await page.locator('th[aria-sort=ascending]').waitFor()
  t.match(page.url(), 'sort=name')
  await page.getByLabel('Find').fill(prefix.replace('…', ''))
  await page.getByRole('link', { name: 'alpha', exact: true }).waitFor({ state: 'detached' })
  t.equal(await rows.count(), 2)
  await page.getByText('Revoked', { exact: true }).click()
  await page.getByText('No key fits').waitFor()
  await isAccessible(t, page, 'nothing found')
  await signIn(user, 'keys?status=nonsense')
  await page.getByRole('link', { name: 'alpha', exact: true }).waitFor()
  t.ok(await page.getByRole('radio', { name: 'Active' }).isChecked(), 'no status is the default')
})

test('all keys go after their owner has been typed', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const keys = [await gateway.mint({ user }), await gateway.mint({ user })]
  await signIn(user)
  await isAccessible(t, page, 'the table')
  await page.getByRole('button', { name: 'Revoke all…' }).click()
  const dialog = page.getByRole('dialog')
  const button = dialog.getByRole('button', { name: 'Revoke 2 keys' })
  t.ok(await button.isDisabled())
  await dialog.getByLabel(`To confirm, type ${user}`).fill(user)
  await button.click()
  await dialog.getByText(`Revoked 2 API keys of user ${user}.`).waitFor()
  await dialog.locator(':focus', { hasText: 'Close' }).waitFor()
  for (const { key } of keys) t.equal((await gateway.ask(chatPath, key, chat())).status, 401)
})

test('an administrator sees the keys of others, a user does not', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(gateway.newUser(), `keys?owner=${user}`)
  await page.getByText('You have no active key').waitFor()
  t.equal(await page.getByRole('radiogroup', { name: 'Whose keys' }).count(), 0)
  await signIn('admin', `keys?owner=${user}`)
  await page.getByRole('cell', { name: user, exact: true }).waitFor()
  await isAccessible(t, page, "an administrator's table")
  await page.getByLabel('Owner').fill('')
  await page.waitForURL(/owner=\*|owner=%2A/)
  await page.getByText('Mine', { exact: true }).click()
  await page.getByText('You have no active key').waitFor()
  t.notMatch(page.url(), 'owner')
  await page.getByText('Everybody', { exact: true }).click()
  await page.getByRole('columnheader', { name: 'Owner' }).waitFor()
})

test('the token is in its tab only', async (t, { page, gateway, signIn }) => {
  await page.goto(`${gateway.url}/console`)
  await isAccessible(t, page, 'the sign-in')
  const user = gateway.newUser()
  await signIn(user)
  const kept = await page.evaluate('JSON.stringify([localStorage, document.cookie, location.href])')
  t.notMatch(kept, user)
  t.notMatch(kept, 'token-')
  const other = await page.context().newPage()
  await other.goto(`${gateway.url}/console`)
  await other.getByLabel('Identity token').waitFor()
})

function chat(model = 'sim'): RequestInit {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
  return { method: 'POST', body: JSON.stringify(body) }
}
