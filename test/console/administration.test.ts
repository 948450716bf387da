import { consoleTests, isAccessible } from '../support/console.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { models, subscriptions } from '../support/gateway.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const hostile = '<img src=x onerror=document.title=1>'
const broken: WrittenDocument = { ...modelRef('broken'), spec: { backendUrl: hostile } }

const test = consoleTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 100_000 }),
    accessPolicy('named', ['llm/sim'], { users: [hostile] }),
    subscription('of-nobody', { users: [hostile] }, { 'llm/other': [[5, '1h']] }),
    broken,
  ],
})

const pages = [
  ['access', 'Access'],
  ['resources', 'Resources'],
  ['refusals', 'Refusals'],
  ['state', 'State'],
] as const

test('a user who types their addresses is refused by the API', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(403)
  const bodies: string[] = []
  page.on('response', async (response) => {
    if (response.url().includes('/v1/admin/')) bodies.push(await response.text())
  })
  for (const [path, title] of pages) {
    await signIn(gateway.newUser(), path)
    await page.getByText('Only an administrator may do this.').waitFor()
    t.equal(await page.getByRole('link', { name: title, exact: true }).count(), 0)
  }
  t.equal(bodies.length, pages.length)
  for (const body of bodies) {
    t.strictSame(Object.keys(JSON.parse(body)), ['error'], 'and gives nothing')
    t.notMatch(body, /llm|sim|plenty/)
  }
})

test('an administrator sees who can use a model, and through what', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin')
  await page.getByRole('link', { name: 'Access' }).click()
  const group = page.getByRole('row', { name: 'llm/sim group team' })
  await group.getByText('yes').waitFor()
  await group.getByText('models-as-a-service/open', { exact: true }).waitFor()
  await group.getByText('100,000 tokens per hour').waitFor()
  t.match(await group.innerText(), /resources\.yaml:\d+/)
  await isAccessible(t, page, 'access')
  await keepPicture(page, 'access')
  await page.getByLabel('User or group').fill(hostile)
  await page.getByText('no policy opens the model').waitFor()
  await page.getByText('no subscription pays').waitFor()
  await group.waitFor({ state: 'detached' })
  t.match(page.url(), 'subject=')
  t.equal(await page.locator('img').count(), 0)
  await page.getByLabel('Model').fill('nothing')
  await page.getByText('Nobody, as far as').waitFor()
  t.equal(await page.title(), 'Access · Tollgate')
})

test('an administrator sees conditions and problems by file and line', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin', 'resources?find=llm/')
  await page.getByText(/resources\.yaml:\d+: error: .*backendUrl/).waitFor()
  const row = page.getByRole('row', { name: 'ModelRef llm/sim' })
  await row.getByText('Ready', { exact: true }).waitFor()
  t.match(await row.innerText(), /resources\.yaml:\d+/)
  await isAccessible(t, page, 'resources')
  await keepPicture(page, 'resources')
  t.equal(await page.locator('img').count(), 0)
  await page.getByLabel('Find').fill('')
  await page.getByLabel('Kind').selectOption('Subscription')
  await page.getByRole('row', { name: 'Subscription models-as-a-service/plenty' }).waitFor()
  await row.waitFor({ state: 'detached' })
})

test('a page after the last one says that it is empty', async (t, { page, signIn }) => {
  for (const [path, heading] of [
    ['access', 'Access'],
    ['resources', 'Resources'],
  ] as const) {
    await signIn('admin', `${path}?page=9`)
    await page.getByText('This page is empty').waitFor()
    await isAccessible(t, page, `${heading}, after its end`)
    await page.getByRole('button', { name: 'Go to the first page' }).click()
    await page.getByRole('row', { name: 'llm/sim' }).first().waitFor()
    t.equal(new URL(page.url()).search, '')
  }
})

test('an administrator sees a refusal, and why', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user })
  const refused = await gateway.chat(key, {}, { model: hostile }, '/v1/chat/completions')
  t.equal(refused.status, 403)
  await signIn('admin')
  await page.getByRole('link', { name: 'Refusals' }).click()
  const row = page.getByRole('row', { name: user })
  await row.getByText('403 model_not_allowed').waitFor()
  await row.getByText('Model not open to the caller').waitFor()
  await row.getByRole('link', { name: 'Access page' }).waitFor()
  await row.getByText(hostile, { exact: true }).waitFor()
  await isAccessible(t, page, 'refusals')
  await keepPicture(page, 'refusals')
  t.equal(await page.locator('img').count(), 0)
  await row.getByRole('link', { name: 'Why?' }).click()
  await page.getByText(/^Refused then: /).waitFor()
  t.equal(await page.title(), 'Why? · Tollgate')
})

test('an administrator sees whose refusals are missing', async (t, { page, signIn }) => {
  const answer = { object: 'list', data: [], complete: false, silent: ['replica-2', hostile] }
  await page.route('**/v1/admin/refusals?*', (route) => route.fulfill({ json: answer }))
  await signIn('admin', 'refusals')
  await page.getByText(`did not answer: replica-2, ${hostile}.`).waitFor()
  await isAccessible(t, page, 'missing refusals')
})

test('an administrator sees processes and stores', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin', 'state')
  await page.getByRole('region', { name: 'Database' }).getByText('available').waitFor()
  await page.getByRole('row', { name: /\(this one\)/ }).waitFor()
  await isAccessible(t, page, 'state')
  await keepPicture(page, 'state')
})

test('the keyboard alone leads to every one', async (t, { page, signIn }) => {
  await signIn('admin')
  for (const [, title] of pages) {
    await page.getByRole('link', { name: title, exact: true }).focus()
    await page.keyboard.press('Enter')
    const heading = page.getByRole('heading', { name: title })
    await poll(
      () => heading.evaluate('document.activeElement.textContent').then((text) => text === title),
      'the heading has the focus',
    )
    t.ok(true, title)
  }
})
