import type { Locator, Page } from 'playwright-core'
import { consoleTests, cutOnce, isAccessible } from '../support/console.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { type Gateway, meter, models, subscriptions } from '../support/gateway.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const hostile = '<img src=x onerror="document.title=1">'

function annotated(document: WrittenDocument): WrittenDocument {
  const annotations = { 'openshift.io/display-name': hostile }
  return { ...document, metadata: { ...document.metadata, annotations } }
}

const further = { requestRateLimits: [{ limit: 60, window: '1h' }], concurrency: 2 }

const test = consoleTests({
  resources: (backendUrl) => [
    ...models(backendUrl).filter(({ metadata }) => metadata.name !== 'other'),
    annotated(modelRef('other', { backendUrl })),
    ...subscriptions({ plenty: 100_000, small: 30 }),
    subscription('busy', { groups: ['team'] }, { 'llm/sim': [[500, '1h']] }, { ofModels: further }),
    subscription(
      'funded',
      { groups: ['team'] },
      { 'llm/sim': [[1_000_000, '1h']] },
      {
        priority: -2,
        ofModels: { billingRate: { perInputToken: '0.01', perOutputToken: '0.05' } },
        spec: {
          limits: [
            { name: 'funds', of: 'cost', limit: '100', window: 'month', per: 'group' },
            { name: 'watched', limit: 1_000, window: 'day', enforce: false },
          ],
        },
      },
    ),
    subscription(
      'named',
      { groups: ['team'] },
      { 'llm/sim': [[1_000_000, '1h']], 'llm/other': [[1_000_000, '1h']] },
      {
        ofModels: { billingRate: { perToken: '0.01' } },
        named: [
          { name: 'spent', of: 'cost', limit: '1', window: 'week' },
          { name: 'plenty', of: 'cost', limit: '1000', window: 'week' },
          { name: 'calls', of: 'requests', limit: 60, window: '1h' },
          {
            name: 'of-other',
            limit: 70,
            window: '1h',
            models: [{ namespace: 'llm', name: 'other' }],
          },
        ],
      },
    ),
    subscription(
      'counted',
      { groups: ['team'] },
      { 'llm/sim': [[10_000, '1h']] },
      {
        priority: -3,
        spec: {
          limits: [{ name: 'daily', of: 'requests', limit: 100, window: 'day', per: 'group' }],
        },
      },
    ),
    accessPolicy('for-admins', ['llm/sim'], { groups: ['tollgate-admins'] }),
    subscription(
      'desk',
      { groups: ['tollgate-admins'] },
      { 'llm/sim': [[1_000, '1h']] },
      { spec: { limits: [{ name: 'papers', limit: 1_000, window: 'day' }] } },
    ),
    meter,
  ],
})

const chats = '**/v1/chat/completions'

/** Opens llm/sim under a subscription. */
async function open(page: Page, subscription: string): Promise<void> {
  await page.getByRole('row', { name: 'llm/sim' }).getByRole('link').first().click()
  await page.getByLabel('Subscription').selectOption(subscription)
}

test('a model is tried, and what it uses is seen at once', async (t, world) => {
  const { page, gateway, signIn } = world
  await signIn(gateway.newUser(), 'models')
  await page.getByRole('row', { name: 'llm/sim' }).first().waitFor()
  await isAccessible(t, page, 'the models')
  await keepPicture(page, 'models')
  await open(page, 'plenty')
  await page.getByText('100,000 left of 100,000 tokens per hour').waitFor()
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('18 tokens: 2 of the prompt, 16 of the answer').waitFor()
  t.match(await page.getByTestId('answer').innerText(), /^\w+( \w+){15}$/)
  await page.getByText('99,982 left of 100,000 tokens per hour').waitFor()
  await page.getByText('Headers of the response').click()
  await page.getByRole('cell', { name: 'x-ratelimit-remaining-tokens' }).waitFor()
  await isAccessible(t, page, 'the model')
  await keepPicture(page, 'model')
})

test('limits of requests stand beside those of tokens, with what is used', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'busy' })
  await gateway.chat(key, { totalTokens: 40 })
  await poll(async () => {
    const { text } = await gateway.ask('/v1/limits?subscription=busy', `token-${user}`)
    return JSON.parse(text).data[0].used === 40
  }, 'the tokens are counted')
  await signIn(user, 'models')
  const row = page.getByRole('row', { name: 'llm/sim' }).first()
  await row.getByText(/^460 left of 500 tokens per hour/).waitFor()
  await row.getByText(/^59 left of 60 requests per hour/).waitFor()
  await row.getByText('2 left of 2 requests at a time').waitFor()
  await isAccessible(t, page, 'limits of requests')
  await open(page, 'busy')
  for (const left of ['460 left of 500 tokens', '59 left of 60 requests', '2 left of 2 requests']) {
    await page.getByText(left).waitFor()
  }
  await signIn('admin', 'access?model=llm/sim&subject=team')
  await page.getByText('500 tokens per hour, 60 requests per hour, 2 requests at a time').waitFor()
})

test('nothing is said to be left of a limit until its use is read', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(503)
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'small' })
  await gateway.chat(key, { totalTokens: 40 })
  const error = { message: 'The gateway is away.', type: 'server_error', code: 'unavailable' }
  await page.route('**/v1/limits', (route) => route.fulfill({ status: 503, json: { error } }))
  await signIn(user, 'models')
  const row = page.getByRole('row', { name: 'llm/sim' }).first()
  await row.getByText('30 tokens per hour', { exact: true }).waitFor()
  await page.getByRole('alert').getByText('The gateway is away.').waitFor()
  t.notMatch(await row.innerText(), /left/)
  await isAccessible(t, page, 'limits that could not be read')
})

test('limits by name stand beside those of a model, budgets once they refuse', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'named' })
  await gateway.chat(key, { totalTokens: 200 })
  await poll(() => gateway.isSpent(key), 'nothing is left')
  await signIn(user, 'models')
  const row = page.getByRole('row', { name: 'llm/sim' }).first()
  await row.getByText('Nothing left of $1.00 per week spent').waitFor()
  await row.getByText('59 left of 60 requests per hour calls').waitFor()
  t.equal(await row.getByText('$1,000.00').count(), 0, 'a budget that does not refuse')
  t.equal(await row.getByText('of-other').count(), 0)
  const other = page.getByRole('row', { name: 'llm/other' }).first()
  await other.getByText('70 left of 70 tokens per hour of-other').waitFor()
  await isAccessible(t, page, 'limits by name')
})

test('the budget of a month has a card, and administrators see who used what of it', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'funded' })
  const usage = { prompt_tokens: 1_000, completion_tokens: 250, total_tokens: 1_250 }
  await gateway.chat(key, { usage })
  await poll(async () => {
    const { text } = await gateway.ask(`/v1/usage?user=${user}`, `token-${user}`)
    return JSON.parse(text).data[0]?.cost === '22.5'
  }, 'the cost is in the ledger')
  await signIn(user, 'budgets')
  const card = page.getByRole('region', { name: 'Budget funds' })
  await card.getByText('$77.50 left of $100.00 per month').waitFor()
  await card.getByText('funded · all models · shared by group team').waitFor()
  t.match(await card.innerText(), /Used\s+\$22\.50\s+At the pace so far\s+\S.*\s+Resets\s+in \d+ /)
  const bar = card.getByRole('progressbar', { name: 'Left of funds' })
  t.equal(await bar.getAttribute('aria-valuenow'), '77.5')
  await page.getByRole('region', { name: 'Budget watched' }).getByText('Nothing left').waitFor()
  t.equal(await page.getByText('Who used it').count(), 0)
  await isAccessible(t, page, 'budgets')
  await keepPicture(page, 'budgets')
  await signIn(user, '')
  const overview = page.getByRole('region', { name: 'Budgets', exact: true })
  await overview.getByText('$77.50 left of $100.00 per month').waitFor()

  await signIn('admin', 'budgets?owner=*&subscription=funded')
  await card.getByText('$77.50 left of $100.00 per month').waitFor()
  await card.getByRole('link', { name: 'Who used it' }).click()
  t.match(page.url(), 'subscription=funded', 'what narrows the cards stays')
  const used = page.getByRole('region', { name: 'Who used funds' })
  await used.getByRole('row', { name: user }).getByRole('cell', { name: '$22.50' }).waitFor()
  await isAccessible(t, page, 'who used a budget')
  await keepPicture(page, 'budgets-of-everybody')
})

/** Asks by the API for more, until tomorrow. */
async function askFor(gateway: Gateway, user: string, more: object): Promise<void> {
  const until = new Date(Date.now() + 86_400_000).toISOString()
  const body = JSON.stringify({ until, reason: hostile, ...more })
  const asked = await gateway.ask('/v1/limit-requests', `token-${user}`, { method: 'POST', body })
  if (asked.status !== 200) throw new Error(asked.text)
}

test('more of a budget is asked for, approved, denied and ended', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(400)
  const user = gateway.newUser()
  await signIn(user, 'budgets')
  const card = page.getByRole('region', { name: 'Budget funds' })
  const watched = page.getByRole('region', { name: 'Budget watched' })
  await watched.waitFor()
  t.equal(await watched.getByRole('link').count(), 0, 'what refuses nobody needs no more')
  const more = 'Ask for more of funds'
  const link = card.getByRole('link', { name: more })
  await link.click()
  const dialog = page.getByRole('dialog')
  const [limit, reason] = [dialog.getByLabel('Limit'), dialog.getByLabel('Reason')]
  await dialog.getByText('Now $100.00 per month.').waitFor()
  await limit.fill('50')
  await isAccessible(t, page, 'asking for more')
  const ask = dialog.getByRole('button', { name: 'Ask' })
  await ask.click()
  await dialog.getByText('Reason must not be empty.').waitFor()
  await reason.fill('a deadline')
  await ask.click()
  await dialog.getByText('Limit must be above that of the resource, 100.').waitFor()
  await limit.fill('250,50')
  await ask.click()
  await dialog.getByText('Limit must be an amount of cost').waitFor()
  await limit.fill('250.50')
  await ask.click()
  await page.getByRole('status').getByText('Asked for more of funds').waitFor()
  await card.getByText('asked for $250.50').waitFor()
  await poll(
    async () => (await page.evaluate('document.activeElement.textContent')) === more,
    'the link has the focus again',
  )
  for (const wanted of ['300', '301', '302', '303'])
    await askFor(gateway, user, { subscription: 'funded', name: 'funds', limit: wanted })
  await link.click()
  await limit.fill('400')
  await reason.fill('one more')
  await ask.click()
  await dialog.getByText('You have 5 open requests; wait until one is decided.').waitFor()

  await askFor(gateway, 'admin', { subscription: 'desk', name: 'papers', limit: 2_000 })
  await signIn('admin', 'budgets?owner=*')
  const open = page.getByRole('region', { name: 'Open requests' })
  const asked = (what: string) => open.getByRole('row').filter({ hasText: what })
  await asked('$250.50').getByText('now $100.00').waitFor()
  await isAccessible(t, page, 'open requests')
  await keepPicture(page, 'open-requests')
  const waiting = page.getByRole('link', { name: /^Budgets/ }).locator('.badge')
  const before = Number(await waiting.innerText())
  t.ok(before >= 6, 'the menu says how many wait for an administrator')
  const approve = `Approve funds for ${user}`
  await asked('papers').getByText('Yours: another administrator decides it.').waitFor()
  for (const verb of ['Approve', 'Deny'])
    t.ok(await open.getByRole('button', { name: `${verb} papers for admin` }).isDisabled(), verb)
  await asked('$250.50').getByRole('button', { name: approve }).click()
  await dialog.getByText('a deadline').waitFor()
  await limit.fill('999')
  await dialog.getByRole('button', { name: 'Approve' }).click()
  await dialog.getByText('Limit must not be beyond what was asked for').waitFor()
  await limit.fill('200')
  await dialog.getByRole('button', { name: 'Approve' }).click()
  await page.getByText(`Approved everywhere: funds for ${user}`).waitFor()
  await asked('$250.50').waitFor({ state: 'detached' })
  await waiting.getByText(`${before - 1}`, { exact: true }).waitFor()
  await asked('$300.00')
    .getByRole('button', { name: `Deny funds for ${user}` })
    .click()
  await reason.fill(hostile)
  await dialog.getByRole('button', { name: 'Deny' }).click()
  await asked('$300.00').waitFor({ state: 'detached' })
  await card.getByText('left of $200.00 per month').waitFor()

  await signIn(user, 'budgets')
  await card.getByText('left of $200.00 per month').waitFor()
  t.equal(await waiting.count(), 0, 'which is nothing to users')
  const own = page.getByRole('region', { name: 'Your requests' })
  const became = (what: string) => own.getByRole('row').filter({ hasText: what })
  await became('$250.50').getByText('approved').waitFor()
  await became('$300.00').getByText('denied').waitFor()
  t.match(await became('$300.00').innerText(), `${hostile}\nby admin`)
  t.equal(await page.locator('main img').count(), 0)
  await keepPicture(page, 'own-requests')

  await signIn('admin', 'budgets?owner=*')
  await page.getByRole('button', { name: 'End funds' }).click()
  await dialog.getByRole('button', { name: 'End it' }).click()
  await page.getByRole('status').getByText('Ended everywhere: funds').waitFor()
  await card.getByText('left of $100.00 per month').waitFor()
  await card.getByRole('link', { name: 'Grant more' }).click()
  await limit.fill('10')
  await reason.fill('the end of the month')
  const grant = dialog.getByRole('button', { name: 'Grant' })
  await grant.click()
  await dialog.getByText('Limit must be above that of the resource, 100.').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Grant more' }).click()
  await dialog.getByLabel('Name').fill('papers')
  await dialog.getByLabel('Subscription').fill('desk')
  await dialog.getByLabel('User').fill('clerk')
  await limit.fill('1,500')
  await reason.fill(hostile)
  await isAccessible(t, page, 'granting more')
  await grant.click()
  await page.getByText('Raised everywhere: papers').waitFor()
  const given = page.getByRole('region', { name: 'Increases in force' })
  await given.getByRole('row').filter({ hasText: 'desk · of clerk' }).getByText('1,500').waitFor()
  await signIn(user, 'budgets')
  await became('$250.50').getByText('ended').waitFor()
})

test('a cut response to a request for more says to look first', async (t, world) => {
  const { page, gateway, signIn } = world
  for (const path of ['/v1/limit-requests', '/v1/admin/increases'])
    await page.addInitScript(cutOnce(path))
  const user = gateway.newUser()
  const dialog = page.getByRole('dialog')
  const send = async (label: string) => {
    await dialog.getByLabel('Limit').fill('250')
    await dialog.getByLabel('Reason').fill(`for ${user}`)
    await dialog.getByRole('button', { name: label }).click()
    const alert = dialog.getByRole('alert')
    await alert.getByText('The connection was lost before the end of the response.').waitFor()
    t.match(await alert.innerText(), 'It may have taken effect. Look before you try again.')
    await page.keyboard.press('Escape')
  }
  await signIn(user, 'budgets')
  const card = page.getByRole('region', { name: 'Budget funds' })
  await card.getByRole('link', { name: 'Ask for more of funds' }).click()
  await send('Ask')
  await card.getByText('asked for $250.00').waitFor()

  await signIn('admin', 'budgets?owner=*&subscription=funded')
  await card.getByRole('link', { name: 'Grant more' }).click()
  await send('Grant')
  const increases = page.getByRole('region', { name: 'Increases in force' })
  const given = increases.getByRole('row').filter({ hasText: `for ${user}` })
  await given.waitFor()
  await page.getByRole('button', { name: 'End funds' }).click()
  await dialog.getByRole('button', { name: 'End it' }).click()
  await given.waitFor({ state: 'detached' })
})

test('what came before a connection was lost stays', async (t, { page, gateway, signIn }) => {
  const chunk = 'data: {"choices":[{"delta":{"content":"half of it"}}]}\n\n'
  await page.addInitScript(`{
    const real = window.fetch
    window.fetch = (path, init) => {
      if (!String(path).includes('chat/completions')) return real(path, init)
      const pieces = [${JSON.stringify(chunk)}]
      return Promise.resolve(new Response(new ReadableStream({
        pull(control) {
          const piece = pieces.pop()
          if (piece === undefined) control.error(new TypeError('network error'))
          else control.enqueue(new TextEncoder().encode(piece))
        },
      }, { highWaterMark: 0 }), { headers: { 'content-type': 'text/event-stream' } }))
    }
  }`)
  await signIn(gateway.newUser(), 'models')
  await open(page, 'small')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('The connection was lost before the end of the response.').waitFor()
  t.equal(await page.getByTestId('answer').innerText(), 'half of it')
})

test('limits of one name are told apart', async (_t, { page, gateway, signIn }) => {
  const resetsAt = new Date(Date.now() + 9e6).toISOString()
  const limit = (of: object, amount: number) => ({
    ...{ name: 'daily', kind: 'tokens', window: 'day', scope: 'user', limit: amount, used: 0 },
    ...{ subscription: null, model: null, models: null, enforced: true, percentLeft: 100 },
    ...{ remaining: amount, startsAt: resetsAt, resetsAt, ...of },
  })
  const [paid, own] = [{ subscription: 'plenty' }, { model: 'llm/sim' }]
  let data = [limit(paid, 500), limit(own, 500), limit(own, 900)]
  await page.route('**/v1/limits?*', (route) => route.fulfill({ json: { object: 'list', data } }))
  await signIn(gateway.newUser(), 'models')
  await open(page, 'plenty')
  const bars = page.getByRole('region', { name: 'What is left' }).getByRole('progressbar')
  await poll(async () => (await bars.count()) === 3, 'three limits')
  data = [limit(own, 900)]
  await page
    .getByText(/left of 500/)
    .first()
    .waitFor({ state: 'detached' })
  await poll(async () => (await bars.count()) === 1, 'one limit', 30_000)
})

test('a model answers one prompt at a time', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'models')
  await open(page, 'plenty')
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  let calls = 0
  await page.route('**/v1/chat/completions', async (route) => {
    calls += 1
    await held
    await route.continue()
  })
  const sent = page.waitForRequest('**/v1/chat/completions')
  await page.getByRole('button', { name: 'Send' }).click()
  await sent
  await page.getByLabel('Max. tokens').press('Enter')
  letGo()
  await page.getByText('18 tokens: 2 of the prompt, 16 of the answer').waitFor()
  t.match(await page.getByTestId('answer').innerText(), /^\w+( \w+){15}$/)
  t.equal(calls, 1)
})

test('subscriptions have one order on all pages, that of the service', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const optionsOf = async (form: Locator) => {
    const options = form.getByLabel('Subscription').locator('option')
    await options.first().waitFor({ state: 'attached' })
    return Promise.all((await options.all()).map((each) => each.getAttribute('value')))
  }
  const ordered = ['funded', 'named', 'plenty', 'counted', 'busy', 'small', 'meter']
  await signIn(user, 'models/llm/sim')
  t.strictSame(await optionsOf(page.locator('main')), ordered)
  await signIn(user, 'keys?new=1')
  t.strictSame(await optionsOf(page.getByRole('dialog')), ordered)
  const body = JSON.stringify({ name: 'any' })
  const made = await gateway.ask('/v1/api-keys', `token-${user}`, { method: 'POST', body })
  t.equal(JSON.parse(made.text).subscription, ordered[0])
})

test('what is left of a model is of its subscription, not of the newest key', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const make = async (body: object) => {
    const init = { method: 'POST', body: JSON.stringify({ subscription: 'plenty', ...body }) }
    t.equal((await gateway.ask('/v1/api-keys', `token-${user}`, init)).status, 201)
  }
  await make({ name: 'open' })
  const models = [{ namespace: 'llm', name: 'other' }]
  await make({ name: 'capped', models, tokenRateLimits: [{ limit: 7, window: '1h' }] })
  await signIn(user, 'models')
  await open(page, 'plenty')
  const left = page.getByRole('region', { name: 'What is left' })
  await left.getByText('100,000 left of 100,000 tokens per hour').waitFor()
  await left.getByText('Your newest key capped would be refused').waitFor()
  await left.getByText('With open it would be allowed.').waitFor()
  await isAccessible(t, page, 'a key that may not call the model')
  await keepPicture(page, 'model-and-capped-key')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('18 tokens: 2 of the prompt').waitFor()
  await left.getByText('99,982 left of 100,000 tokens per hour').waitFor()
})

test('a model for which no subscription is listed has its limits and explanation', async (t, world) => {
  const { page, gateway, signIn } = world
  await page.route('**/v1/subscriptions', (route) => route.fulfill({ json: [] }))
  await page.route('**/v1/explain', async (route) => {
    const explained = await (await route.fetch()).json()
    await route.fulfill({ json: { ...explained, allowed: false, message: 'Nobody pays.' } })
  })
  await signIn(gateway.newUser(), 'models/llm/sim')
  const left = page.getByRole('region', { name: 'What is left' })
  await left.getByText('Nobody pays.').waitFor()
  await left.getByText('100,000 left of 100,000 tokens per hour').waitFor()
  t.equal(await left.getByRole('alert').count(), 0)
  t.notMatch(await left.getByRole('link', { name: 'Why?' }).getAttribute('href'), 'subscription')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('18 tokens: 2 of the prompt').waitFor()
})

test('who used a budget of requests is told by requests', async (t, { page, gateway, signIn }) => {
  const [few, many] = [gateway.newUser(), gateway.newUser()]
  const { key } = await gateway.mint({ user: few, subscription: 'counted' })
  const { key: other } = await gateway.mint({ user: many, subscription: 'counted' })
  await gateway.chat(key, { totalTokens: 900 })
  for (let i = 0; i < 3; i += 1) await gateway.chat(other, { totalTokens: 10 })
  await poll(async () => {
    const { text } = await gateway.ask(
      '/v1/usage?group_by=user&subscription=counted',
      'token-admin',
    )
    return (
      JSON.parse(text)
        .data.map(({ answers }: { answers: number }) => answers)
        .sort()
        .join() === '1,3'
    )
  }, 'the usage is in the ledger')
  await signIn('admin', 'budgets?owner=*&subscription=counted')
  await page
    .getByRole('region', { name: 'Budget daily' })
    .getByRole('link', { name: 'Who used it' })
    .click()
  const rows = page
    .getByRole('region', { name: 'Who used daily' })
    .locator('tbody')
    .getByRole('row')
  await rows.first().waitFor()
  const shares = await Promise.all(
    (await rows.all()).map((row) =>
      Promise.all([row.getByRole('link').innerText(), row.getByRole('cell').last().innerText()]),
    ),
  )
  t.strictSame(shares, [
    [many, '75%'],
    [few, '25%'],
  ])
  t.equal(await page.getByText('some users are missing').count(), 0)
  await page.route('**/v1/usage?*', async (route) => {
    const page = await (await route.fetch()).json()
    await route.fulfill({ json: { ...page, has_more: true } })
  })
  await page.reload()
  await page.getByText('some users are missing, and shares are of those shown').waitFor()
})

test('an error in the stream of a model is shown', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'models')
  await open(page, 'small')
  const answer = page.getByTestId('answer')
  const asking = page.getByRole('region', { name: 'Try it' })
  let [contentType, body] = ['text/event-stream', '']
  await page.route(chats, (route) => route.fulfill({ contentType, body }))
  const send = asking.getByRole('button', { name: 'Send' })
  const piece = 'data: {"choices":[{"delta":{"content":"half of it"}}]}\n\n'
  for (const error of ['{"message":"out of memory","code":500}', '"out of memory"']) {
    body = `${piece}data: {"error":${error}}\n\ndata: [DONE]\n\n`
    await send.click()
    const alert = asking.getByRole('alert')
    await alert.getByText('The model responded with an error: out of memory').waitFor()
    t.equal(await answer.innerText(), 'half of it', 'what came before stays')
    t.equal(await asking.getByText('reported no usage').count(), 0)
    await isAccessible(t, page, 'an error in the stream')
  }
  contentType = 'text/html'
  body = '<h1>Sign in to the network</h1>'
  await send.click()
  await asking.getByText('The response is not a stream of events (text/html).').waitFor()
  await page.unroute(chats)
  await send.click()
  await asking.getByText('18 tokens: 2 of the prompt').waitFor()
})

test('a refusal leads to its explanation', async (t, { page, gateway, expected, signIn }) => {
  expected.add(429)
  await signIn(gateway.newUser(), 'models')
  await open(page, 'small')
  const send = page.getByRole('button', { name: 'Send' })
  const refused = page.getByRole('region', { name: 'Try it' }).getByRole('alert')
  await poll(async () => {
    await send.click()
    await page
      .getByText(/of the answer|rate_limit_exceeded/)
      .first()
      .waitFor()
    return (await refused.count()) > 0
  }, 'the limit is used up')
  t.match(await refused.innerText(), /is used up: \d+ of 30 tokens.*429 rate_limit_exceeded/s)
  await isAccessible(t, page, 'the refusal')
  await page.getByRole('region', { name: 'Try it' }).getByRole('link', { name: 'Why?' }).click()
  await page.getByText(/^Refused then: .* is used up/).waitFor()
  await page.getByText(/^Now it would be refused/).waitFor()
  t.equal(await page.locator('.steps [data-passed=false]').count(), 1, 'one step refuses')
  await page.getByText('Wait until it resets, or use a key').waitFor()
  await page.getByText('Subscription models-as-a-service/small pays').waitFor()
  await isAccessible(t, page, 'the explanation')
  await keepPicture(page, 'why')
})

test('only an administrator asks about others', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(403)
  const [user, other] = [gateway.newUser(), gateway.newUser()]
  const question = `explain?model=llm/sim&user=${other}&groups=team&subscription=plenty`
  await signIn(user, question)
  await page.getByText('Only an administrator may ask what another user may call.').waitFor()
  t.equal(await page.getByLabel('User', { exact: true }).count(), 0)
  await signIn('admin', question)
  await page.getByText('It would pass.').waitFor()
  await page.getByText(/AccessPolicy \S*open/).waitFor()
  await page
    .getByText(/resources\.yaml:\d+/)
    .first()
    .waitFor()
  await page.getByText(`Asked for ${other} with an identity token.`).waitFor()

  const { id } = await gateway.mint({ user: other })
  const backend = { reachable: false, reason: 'timed_out', detail: hostile }
  await page.route('**/v1/explain', async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ json: { ...(await answer.json()), backend } })
  })
  await page.getByRole('combobox', { name: 'Subscription' }).selectOption('Any of mine')
  await page.getByRole('button', { name: 'Would it pass?' }).click()
  await page
    .getByText(`Asked for ${other} with the newest key test, of the subscription plenty.`)
    .waitFor()
  const link = page.getByRole('link', { name: 'test', exact: true })
  t.match(await link.getAttribute('href'), id)
  await page.getByText(`its last request has failed (timed out: ${hostile})`).waitFor()
  await isAccessible(t, page, 'an explanation for another user')
})

test('a model nobody opened is explained', async (t, { page, signIn }) => {
  await signIn('guest', 'models')
  await page.getByText('No model is open to you').waitFor()
  await isAccessible(t, page, 'no models')
  await page.getByRole('link', { name: 'why', exact: true }).click()
  await page.getByLabel('Model').fill('llm/sim')
  await page.getByRole('button', { name: 'Would it pass?' }).click()
  await page.getByText(/^It would be refused/).waitFor()
})

test('the names of models are text', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'models')
  await page.getByText(hostile).first().waitFor()
  t.equal(await page.locator('img').count(), 0)
  t.equal(await page.title(), 'Models · Tollgate')
})

test('a narrow screen has every page behind its menu', async (t, { page, gateway, signIn }) => {
  await page.setViewportSize({ width: 360, height: 640 })
  await signIn(gateway.newUser())
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByRole('heading', { name: 'Models' }).waitFor()
  const width = await page.evaluate('document.documentElement.scrollWidth')
  t.ok((width as number) <= 360, `the page is ${width} wide`)
  await isAccessible(t, page, 'a narrow screen')
})

test('many models have a filter', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const rows = page.locator('.data tbody tr')
  await signIn(user, 'models')
  await rows.first().waitFor()
  t.equal(await page.getByLabel('Find').count(), 0)
  await page.route('**/v1/models', async (route) => {
    const response = await route.fetch()
    const { data, ...list } = await response.json()
    const more = Array.from({ length: 12 }, (_, i) => ({
      ...data[0],
      ...{ id: `sim-${i}`, owned_by: `llm/sim-${i}` },
    }))
    await route.fulfill({ response, json: { ...list, data: [...data, ...more] } })
  })
  await signIn(user, 'models')
  await rows.nth(11).waitFor()
  await page.getByLabel('Find').fill('SIM-7')
  await page.waitForURL(/find=SIM-7/)
  t.match(await rows.allInnerTexts(), [/^llm\/sim-7\b/])
  await page.getByLabel('Find').fill('absent')
  await page.getByText('No model fits').waitFor()
})
