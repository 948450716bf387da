import type { Page } from 'playwright-core'
import { consoleTests, isAccessible } from '../support/console.ts'
import { modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { type Gateway, models, subscriptions } from '../support/gateway.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const hostile = '<img src=x onerror=document.title=1>'
const broken: WrittenDocument = { ...modelRef('broken'), spec: { backendUrl: hostile } }

const test = consoleTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    ...subscriptions({ plenty: 3_000 }),
    subscription('of-nothing', { users: ['nobody'] }, { 'llm/absent': [[5, '1h']] }),
    broken,
  ],
})

/** Holds the page's requests to this address; the result lets them through. */
async function holdRequests(page: Page, address: string): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route(address, async (route) => {
    await promise
    await route.continue()
  })
  return resolve
}

/** Makes a key, uses 1,200 tokens with it, and is refused once; its secret. */
async function use(gateway: Gateway, user: string): Promise<string> {
  const { key } = await gateway.mint({ user, expiresIn: '3d' })
  await gateway.chat(key, { totalTokens: 1_200 })
  await gateway.chat(key, {}, { model: hostile }, '/v1/chat/completions')
  await poll(async () => {
    const { text } = await gateway.ask(`/v1/usage?user=${user}`, `token-${user}`)
    return JSON.parse(text).data[0]?.total_tokens === 1_200
  }, 'the usage is in the ledger')
  return key
}

test('a person begins with use, limits, keys and refusals', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  await use(gateway, gateway.newUser())
  await signIn(user, '')
  for (const period of ['Today', 'This week', 'This month']) {
    const card = page.getByRole('region', { name: period, exact: true })
    await card.getByText('1,200 tokens').waitFor()
    await card.getByText('1 request', { exact: true }).waitFor()
  }
  const left = page.getByRole('region', { name: 'What is left' })
  await left.getByText('1,800 left of 3,000 tokens per hour').waitFor()
  const bar = left.getByRole('progressbar', { name: /^Left of 3,000 tokens per hour/ }).first()
  t.equal(await bar.getAttribute('aria-valuenow'), '1800', 'the bar is what is left')
  await page.getByText('A key cannot be prolonged').waitFor()
  await page.getByRole('region', { name: 'API keys' }).getByText('1 active key').waitFor()
  await isAccessible(t, page, 'the overview')
  await keepPicture(page, 'overview')

  const refusals = page.getByRole('region', { name: 'Last refusals' })
  t.equal(await refusals.getByRole('listitem').count(), 1, 'own ones only')
  await refusals.getByText(hostile).waitFor()
  t.equal(await page.locator('main img').count(), 0)
  await refusals.getByRole('link', { name: 'Model not open to you' }).click()
  await page.getByText(/^Refused then: /).waitFor()
  await page.getByText('the Models page has those that you may use').waitFor()
  await page.getByRole('link', { name: 'Models page' }).click()
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor()
})

test('a steady use has not changed, at any minute of an hour', async (t, world) => {
  const { page, gateway, signIn } = world
  const [minuteMs, dayMs] = [60_000, 86_400_000]
  // A token a minute, without end.
  await page.route('**/v1/usage?*', async (route) => {
    const { searchParams: query } = new URL(route.request().url())
    const [from = 0, to = 0] = ['from', 'to'].map((name) => Date.parse(query.get(name) ?? ''))
    const lengthMs = query.get('group_by')?.startsWith('day') ? dayMs : to
    const data = []
    for (let at = from; at < to; ) {
      const end = Math.min(to, (Math.floor(at / lengthMs) + 1) * lengthMs)
      const tokens = Math.max(0, Math.min(end, Date.now()) - at) / minuteMs
      data.push({ start: new Date(at).toISOString(), total_tokens: tokens, answers: tokens })
      at = end
    }
    const rows = data.map((row) => ({ ...row, model: 'llm/sim', refusals_approximate: 0 }))
    await route.fulfill({ json: { object: 'list', data: rows, gaps: [], has_more: false } })
  })
  await signIn(gateway.newUser(), '')
  await page.getByRole('region', { name: 'This month', exact: true }).waitFor()
  const changes = await page.locator('.change').allInnerTexts()
  if (new Date().getUTCDate() > 1) t.ok(changes.length > 0)
  for (const change of changes) t.match(change, /^[↑↓] (0|<0\.1) ?%$/)
  await page.unroute('**/v1/usage?*')
})

test('a key sees what is its own', async (t, { page, gateway }) => {
  const user = gateway.newUser()
  const key = await use(gateway, user)
  await use(gateway, gateway.newUser())
  const { key: other } = await gateway.mint({ user })
  for (const [credential, refused] of [
    [key, 1],
    [other, 0],
  ] as const) {
    await page.goto(`${gateway.url}/console`)
    await page.getByLabel('Identity token').fill(credential)
    await page.getByRole('button', { name: 'Sign in' }).click()
    const refusals = page.getByRole('region', { name: 'Last refusals' })
    await refusals.waitFor()
    t.equal(await refusals.getByRole('listitem').count(), refused)
  }
})

test('somebody new is led to the first key', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), '')
  await page.getByText('Nothing was used in these days.').waitFor()
  await page.getByText(/^Nothing was refused since the start, .* ago\.$/).waitFor()
  await isAccessible(t, page, 'an empty overview')
  await page.getByRole('link', { name: 'Make your first key' }).click()
  await page.getByRole('dialog').getByLabel('Name').waitFor()
  await poll(
    async () => (await page.evaluate('document.activeElement.name')) === 'name',
    'the name has the focus',
  )
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.notMatch(page.url(), 'new=')
})

test('an administrator begins with everybody, or with own keys', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const key = await use(gateway, user)
  await signIn('admin', '')
  const health = page.getByRole('region', { name: 'Health' })
  await health.getByText('All parts work').waitFor()
  t.equal(await health.getByText('Not counted').count(), 0)
  const stat = (name: string) => page.getByRole('region', { name, exact: true })
  await stat('Time to the first byte')
    .getByText(/^median of \d+ responses?/)
    .waitFor()
  await poll(
    async () => /Requests today\s+\d/.test(await stat('Requests today').innerText()),
    'the requests of today',
  )
  t.match(await stat('Tokens today').innerText(), /\d/)
  t.match(await stat('Refusals').innerText(), /0 by limits, \d+ for other reasons/)
  await page.getByRole('region', { name: 'Top users' }).getByText(user).waitFor()
  const unwell = page.getByRole('region', { name: 'Resources with problems' })
  await unwell.getByText(/resources\.yaml:\d+: error: .*backendUrl/).waitFor()
  await unwell.getByText('Subscription models-as-a-service/of-nothing').waitFor()
  await page.getByRole('region', { name: 'Last refusals' }).getByText(user).first().waitFor()
  t.equal(await page.locator('main img').count(), 0)
  await isAccessible(t, page, "an administrator's overview")
  await keepPicture(page, 'overview-of-everybody')
  await page.getByText('Mine', { exact: true }).click()
  await page.getByRole('link', { name: 'Make your first key' }).waitFor()
  t.equal(await health.count(), 0)

  const embeddings = { method: 'POST', body: '{"model":"sim","input":"Hi"}' }
  await gateway.ask('/llm/sim/v1/embeddings', key, embeddings)
  await page.getByText('Everybody', { exact: true }).click()
  await health.getByText('Not counted 1 call').waitFor()
  await health.getByRole('link', { name: '1 call' }).click()
  await page.getByRole('region', { name: 'Calls' }).getByText('not all counted').waitFor()
})

const dayMs = 86_400_000

/** Each of these models has one request of one token on each day, and is used by a user of its own. */
async function fakeUsage(page: Page, models: number): Promise<void> {
  await page.route('**/v1/usage?*', async (route) => {
    const query = new URL(route.request().url()).searchParams
    const groups = (query.get('group_by') ?? '').split(',')
    const from = Math.floor(Date.parse(query.get('from') ?? '') / dayMs)
    const to = Math.ceil(Date.parse(query.get('to') ?? new Date().toISOString()) / dayMs)
    const [isByDay, isByName] = [groups.includes('day'), /model|user/.test(groups.join())]
    const starts = Array.from({ length: isByDay ? to - from : 1 }, (_, day) => from + day)
    const names = Array.from({ length: isByName ? models : 1 }, (_, at) => `name-${10_000 + at}`)
    const number = (isByDay ? 1 : to - from) * (isByName ? 1 : models)
    const counts = { answers: number, total_tokens: number, refusals_approximate: 0 }
    const rows = starts.flatMap((day) =>
      names.map((name) => ({
        ...(isByDay && { start: new Date(day * dayMs).toISOString() }),
        ...(isByName && { model: name, user: name }),
        ...counts,
      })),
    )
    const at = Number(query.get('cursor') ?? 0)
    const has_more = at + 1_000 < rows.length
    const data = rows.slice(at, at + 1_000)
    const next = has_more && { next_cursor: String(at + 1_000) }
    await route.fulfill({ json: { object: 'list', data, gaps: [], has_more, ...next } })
  })
}

test('the overview knows today, however many models there are', async (t, world) => {
  const { page, signIn } = world
  await fakeUsage(page, 180)
  await signIn('admin', '')
  const tokens = page.getByRole('region', { name: 'Tokens today' })
  const plot = page.getByRole('region', { name: 'Tokens by day' })
  await tokens.getByText('180', { exact: true }).waitFor()
  await plot.getByText('and 174 more').waitFor()
  t.equal(await plot.getByText('Too many models').count(), 0)
  t.equal(await page.getByText('first 5,000 users').count(), 0)

  await page.unroute('**/v1/usage?*')
  await fakeUsage(page, 5_100)
  await page.reload()
  await tokens.getByText('5.1K', { exact: true }).waitFor()
  await plot.getByText('Too many models to show those of each day').waitFor()
  await plot.locator('.bars svg path').first().waitFor()
  await page
    .getByRole('region', { name: 'Top users' })
    .getByText('Of the first 5,000 users in alphabetical order.')
    .waitFor()
  await isAccessible(t, page, 'an overview of many models')
  await keepPicture(page, 'overview-of-many')
})

test('keys that the page has made are folded, and spend is beside each', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  const body = { subscription: 'plenty', ephemeral: true, labels: { 'made-by': 'console' } }
  const made = { method: 'POST', body: JSON.stringify({ ...body, name: 'Tried' }) }
  await gateway.ask('/v1/api-keys', `token-${user}`, made)
  await signIn(user)
  await page.getByRole('row', { name: /^test .*1\.2k/i }).waitFor()
  await page.getByText('2 keys', { exact: true }).waitFor()
  t.equal(await page.getByRole('link', { name: 'Tried' }).isVisible(), false)
  await page.getByText('1 ephemeral key made by this page to try models').click()
  await page.getByRole('row', { name: /^Tried ephemeral/ }).waitFor()
  await isAccessible(t, page, 'folded keys')
})

test('what is slow has an outline, then a sentence', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'usage')
  const answer = await holdRequests(page, '**/v1/models')
  await page.getByRole('link', { name: 'Models' }).click()
  await page.locator('.outline').waitFor()
  t.equal(await page.getByText('has not answered yet').count(), 0)
  await page.getByText('The gateway has not answered yet').waitFor()
  await isAccessible(t, page, 'waiting')
  answer()
  await page.getByRole('row', { name: 'llm/sim' }).first().waitFor()
  t.equal(await page.locator('.outline').count(), 0)
})

test('a reload of a page whose gateway does not answer says so', async (t, world) => {
  const { page, gateway, signIn } = world
  await signIn(gateway.newUser())
  const answer = await holdRequests(page, '**/v1/me')
  await page.reload()
  await page.getByText('Signing in at').waitFor()
  await page.getByText('The gateway has not answered yet').waitFor()
  await isAccessible(t, page, 'signing in')
  answer()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
})

test('a state that is not of now says of when it is', async (t, world) => {
  const { page, expected, signIn } = world
  expected.add(503)
  await signIn('admin', 'state')
  await page.getByRole('region', { name: 'Database' }).getByText('available').waitFor()
  const error = { message: 'The gateway is away.', type: 'server_error', code: 'unavailable' }
  await page.route('**/v1/admin/state', (route) => route.fulfill({ status: 503, json: { error } }))
  await page.getByText(/^As of \d/).waitFor()
  await page.getByRole('alert').getByText('The gateway is away.').waitFor()
  t.equal(await page.locator('.stale').count(), 1)
  await page.getByRole('region', { name: 'Database' }).getByText('available').waitFor()
  await isAccessible(t, page, 'an old state')
  await page.unroute('**/v1/admin/state')
  await page.getByText(/^As of \d/).waitFor({ state: 'detached' })
})
