import type { Browser, Page } from 'playwright-core'
import { openContext, watchPage } from '../support/browser.ts'
import { act, type ConsoleTest, consoleTests, isAccessible } from '../support/console.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const hostile = '<img src=x onerror=document.title=1>'

function displayed(document: WrittenDocument): WrittenDocument {
  const annotations = {
    'openshift.io/display-name': hostile,
    'openshift.io/description': hostile,
  }
  return { ...document, metadata: { ...document.metadata, annotations } }
}

/** The longest name of a Subscription, and of a limit, without a place for a break. */
const [longest, long] = [`${'s'.repeat(63)}.`.repeat(4).slice(0, 253), 'l'.repeat(63)]

const team = { groups: ['team', 'tollgate-admins', hostile], users: [hostile] }

const test = consoleTests({
  resources: (backendUrl) => [
    displayed(modelRef('sim', { backendUrl })),
    accessPolicy('open', ['llm/sim'], team),
    displayed(
      subscription(
        'plenty',
        team,
        { 'llm/sim': [[1_000_000, '1h']] },
        {
          ofModels: { billingRate: { perToken: '0.001' } },
          spec: {
            limits: [
              { name: 'funds', of: 'cost', limit: '1234567.5', window: 'month', per: 'group' },
            ],
          },
        },
      ),
    ),
    subscription(
      longest,
      team,
      { 'llm/sim': [[1_000_000_000, '1h']] },
      {
        ofModels: { billingRate: { perToken: '0.001' } },
        named: [{ name: long, of: 'cost', limit: '0.01', window: 'week' }],
      },
    ),
  ],
})

/** Every page, with its heading; the last ones are for administrators. */
const pages = [
  ['overview', 'Overview'],
  ['keys', 'API keys'],
  ['models', 'Models'],
  ['overview?owner=me', 'Overview'],
  ['models/llm/sim', 'llm/sim'],
  ['usage?by=key', 'Usage'],
  ['budgets', 'Budgets'],
  ['explain?model=llm/sim&subscription=plenty', 'Why?'],
  ['reference', 'API reference'],
  ['nowhere', 'There is no such page'],
  ['budgets?owner=*', 'Budgets'],
  ['access', 'Access'],
  ['resources', 'Resources'],
  ['refusals', 'Refusals'],
  ['state', 'State'],
] as const

/** Makes a key with names that look like markup, uses it, is refused with it, and asks for more and grants it. */
async function prepare({ gateway }: ConsoleTest, user: string): Promise<string> {
  const body = {
    name: hostile,
    description: hostile,
    labels: { about: hostile },
    subscription: 'plenty',
  }
  const post = async (path: string, body: object) => {
    const init = { method: 'POST', body: JSON.stringify(body) }
    const { status, text } = await gateway.ask(path, `token-${user}`, init)
    if (status > 201) throw new Error(text)
    return JSON.parse(text)
  }
  const { id, key } = await post('/v1/api-keys', body)
  const until = new Date(Date.now() + 86_400_000).toISOString()
  const more = { subscription: 'plenty', name: 'funds', limit: '2345678.9', until, reason: hostile }
  await post('/v1/limit-requests', more)
  await post('/v1/admin/increases', { ...more, whom: hostile })
  const path = '/v1/chat/completions'
  await gateway.chat(key, { totalTokens: 100 }, { model: hostile }, '/llm/sim/v1/chat/completions')
  await gateway.chat(key, {}, { model: `${hostile}?` }, path)
  await poll(async () => {
    const usage = await gateway.ask(`/v1/usage?key=${id}`, `token-${user}`)
    return JSON.parse(usage.text).data.length > 0
  }, 'the usage is in the ledger')
  return id
}

/** Goes to an address within the page, which stays signed in. */
async function go(page: Page, path: string, heading: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', '/console/' + ${JSON.stringify(path)})
    dispatchEvent(new PopStateEvent('popstate'))`)
  await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor()
  await page.waitForLoadState('networkidle')
}

/** Of a desk, of a phone, and the narrowest to which a page must reflow (WCAG 2, 1.4.10). */
const [wide, narrow, narrowest] = [
  { width: 1_280, height: 720 },
  { width: 360, height: 640 },
  { width: 320, height: 640 },
]

test('every page is accessible, shows names as text, and fits a phone', async (t, world) => {
  const { page, signIn } = world
  const id = await prepare(world, 'admin')
  await signIn('admin')
  await page.getByText('$0.10', { exact: true }).waitFor({ timeout: 5_000 })
  const session = await page.context().newCDPSession(page)
  for (const [path, heading] of [...pages, [`keys/${id}`, hostile] as const]) {
    await page.setViewportSize(wide)
    await go(page, path, heading)
    await isAccessible(t, page, heading)
    t.equal(await page.locator('main img').count(), 0, `${heading} has no image`)
    t.equal(await page.title(), `${heading} · Tollgate`)

    await page.setViewportSize(narrow)
    await isAccessible(t, page, `${heading}, narrow`)
    t.strictSame(await page.evaluate(tooWide), [], `${heading} fits`)
    await session.send('Accessibility.enable')
    const { nodes } = await session.send('Accessibility.getFullAXTree')
    await session.send('Accessibility.disable')
    const roles = nodes.filter(({ ignored }) => !ignored).map(({ role }) => role?.value)
    const cells = await page.locator('.data :is(th, td):has(> :not(:empty))').count()
    const read = roles.filter((role) => ['cell', 'gridcell', 'columnheader'].includes(role)).length
    t.ok(read >= cells, `${heading}: a screen reader finds ${read} cells of ${cells}`)
    await page.setViewportSize(narrowest)
    t.strictSame(await widest(page), [], `${heading} fits 320 pixels`)
    t.strictSame(await page.evaluate(overlapping), [], `${heading}: nothing in its header overlaps`)
  }
  await keepPicture(page, 'narrow-key')
  await go(page, 'keys', 'API keys')
  await keepPicture(page, 'narrow-keys')
  await go(page, 'access', 'Access')
  await keepPicture(page, 'narrow-access')
  await go(page, 'keys', 'API keys')
  await page.getByRole('button', { name: 'Expires' }).click()
  await page
    .getByRole('columnheader', { name: 'Expires' })
    .and(page.locator('[aria-sort]'))
    .waitFor()
})

/** What stays too wide: plots and marks of a choice follow the width a moment later. */
async function widest(page: Page): Promise<unknown> {
  const fits = async () => ((await page.evaluate(tooWide)) as unknown[]).length === 0
  await poll(fits, 'everything fits').catch(() => {})
  return await page.evaluate(tooWide)
}

/** What is beyond the screen, or scrolls sideways within it. A name that is cut says so by an ellipsis. */
const tooWide = `[document.documentElement, ...document.querySelectorAll('header *, main, main *')]
  .filter((each) => {
    const { overflowX, position, textOverflow } = getComputedStyle(each)
    if (each.matches('input, select') || position === 'absolute' || textOverflow === 'ellipsis') return false
    const scrolls = overflowX !== 'visible' && each.scrollWidth > each.clientWidth + 1
    return scrolls || each.getBoundingClientRect().right > innerWidth + 1
  })
  .map((each) => each.outerHTML.slice(0, 200))`

test('text of twice its size on a phone leaves everything within reach', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin')
  const session = await page.context().newCDPSession(page)
  await session.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } })
  await page.setViewportSize(narrowest)
  for (const [path, heading] of pages) {
    await go(page, path, heading)
    t.strictSame(await page.evaluate(outOfReach), [], heading)
  }
})

/** What a person can do something with, and is beyond the screen. */
const outOfReach = `[...document.querySelectorAll('header *, main *')]
  .filter((each) => each.matches('a, button, label, input, select, summary') && !each.matches('.skip'))
  .filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 200))`

test('a long name without a break fits', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  const body = JSON.stringify({ name: 'n'.repeat(128), subscription: longest })
  const made = await gateway.ask('/v1/api-keys', `token-${user}`, { method: 'POST', body })
  const { id, key } = JSON.parse(made.text)
  await gateway.chat(key, { totalTokens: 1_000_000 })
  await poll(() => gateway.isSpent(key), 'nothing is left')
  await signIn(user, 'overview')
  for (const path of [
    'overview',
    'keys',
    `keys/${id}`,
    'models',
    'models/llm/sim',
    'usage?by=key',
    'budgets',
    `explain?model=llm/sim&subscription=${longest}`,
  ]) {
    await page.evaluate(`history.pushState(null, '', '/console/${path}')
      dispatchEvent(new PopStateEvent('popstate'))`)
    await page.waitForLoadState('networkidle')
    if (path.endsWith('sim')) await page.getByLabel('Subscription').selectOption(longest)
    await page
      .locator('main')
      .getByText(/s{40}|n{40}/)
      .locator('visible=true')
      .first()
      .waitFor()
    for (const size of [narrow, wide]) {
      await page.setViewportSize(size)
      t.strictSame(await widest(page), [], `${path}, ${size.width}`)
    }
  }
})

/** What in the header has its left edge on what is before it. */
const overlapping = `[...document.querySelectorAll('header a, header button, header .initial')]
  .map((each) => ({ each, box: each.getBoundingClientRect() }))
  .filter(({ box }) => box.width > 0)
  .filter(({ box }, at, all) => at > 0 && box.left < all[at - 1].box.right)
  .map(({ each }) => each.outerHTML.slice(0, 200))`

test('every page is read and left by the keyboard alone', async (t, world) => {
  const { page, signIn } = world
  await signIn('admin')
  for (const [path, heading] of pages) {
    await go(page, path, heading)
    t.equal(await page.evaluate('document.activeElement.textContent'), heading, 'the focus')
    const wanted = await page.locator(focusable).count()
    await page.evaluate(watch)
    for (let i = 0; i < wanted + 5; i += 1) await page.keyboard.press('Tab')
    const { reached, unseen } = (await page.evaluate('watched')) as Watched
    t.ok(reached >= wanted, `${heading}: the tabulator reaches ${reached} of ${wanted}`)
    t.strictSame(unseen, [], `${heading}: the focus is always seen`)
  }
})

/** What a person can do something with; of radio buttons the chosen one stands for its group. */
const focusable = `:is(a[href], button, input, select, textarea, summary, [tabindex="0"]):not(:disabled):not([type=radio]:not(:checked)):visible`

interface Watched {
  /** How many have had the focus. */
  readonly reached: number
  /** Those of them that did not show it. */
  readonly unseen: readonly string[]
}

/** Watches from now on what gets the focus. */
const watch = `(() => {
  const seen = new Set()
  window.watched = { reached: 0, unseen: [] }
  document.addEventListener('focusin', ({ target }) => {
    const shown = target.type === 'radio' ? target.nextElementSibling : target
    const isField = target.matches('input:not([type=radio], [type=checkbox]), select, textarea')
    if (!isField && getComputedStyle(shown).outlineStyle === 'none') {
      window.watched.unseen.push(target.outerHTML.slice(0, 200))
    }
    window.watched.reached = seen.add(target).size
  })
})()`

test('a finger hits everything on a phone', async (t, world) => {
  const { page, gateway } = world
  const id = await prepare(world, 'admin')
  const browser = page.context().browser() as Browser
  const context = await openContext(t, browser, {
    viewport: narrow,
    hasTouch: true,
    isMobile: true,
  })
  const { page: phone } = await watchPage(context)
  await phone.goto(`${gateway.url}/console/keys`)
  await phone.getByLabel('Identity token').fill('token-admin')
  await phone.getByRole('button', { name: 'Sign in' }).click()
  await phone.getByRole('button', { name: 'Sign out' }).waitFor()
  for (const [path, heading] of [...pages, [`keys/${id}`, hostile] as const]) {
    await go(phone, path, heading)
    t.strictSame(await phone.evaluate(tooSmall), [], heading)
  }
  await go(phone, 'keys?new=1', 'API keys')
  await phone.getByText('Restrictions').click()
  await phone.getByLabel('Networks').waitFor()
  t.strictSame(await phone.evaluate(tooSmall), [], 'a form')
})

/** What is narrower or lower than 44 pixels, with its invisible edge, outside of sentences (WCAG 2, 2.5.5). */
const tooSmall = `[...document.querySelectorAll('a, button, select, input, textarea, summary')]
  .filter((each) => !each.matches('.skip, [type=radio], [type=checkbox]') && !each.closest('p, .note, .mantine-Text-root'))
  .filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .filter((each) => {
    const { width, height } = each.getBoundingClientRect()
    const edge = getComputedStyle(each, '::after')
    const [wide, high] = [edge.minWidth, edge.height].map((size) => parseFloat(size) || 0)
    return Math.max(width, wide) < 43.5 || Math.max(height, high) < 43.5
  })
  .map((each) => each.outerHTML.slice(0, 200))`

test('the menu of a phone has the focus only while it is open', async (t, world) => {
  const { page, gateway, signIn } = world
  await page.setViewportSize(narrow)
  await signIn(gateway.newUser(), 'usage')
  const menu = page.getByRole('button', { name: 'Menu' })
  const models = page.getByRole('link', { name: 'Models' })
  t.equal(await models.count(), 0, 'nor does a screen reader find it')
  await menu.focus()
  const beside = `document.activeElement.getBoundingClientRect().right < 1`
  for (let i = 0; i < 12; i += 1) {
    await page.keyboard.press('Tab')
    t.notOk(await page.evaluate(beside), 'the focus is on the screen')
  }
  await menu.press('Enter')
  await models.waitFor()
  t.equal(await menu.getAttribute('aria-expanded'), 'true')
  await models.press('Escape')
  await models.waitFor({ state: 'hidden' })
  t.equal(await page.evaluate(focusedName), 'Menu')
  await menu.press('Enter')
  await page.getByRole('link', { name: 'API reference' }).press('Tab')
  await models.waitFor({ state: 'hidden' })
  t.equal(await menu.getAttribute('aria-expanded'), 'false', 'the page has the focus')
})

const focusedName = `document.activeElement.ariaLabel ?? document.activeElement.textContent`

test('the focus returns after each dialog', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  for (let i = 0; i < 2; i += 1) await gateway.mint({ user })
  await signIn(user)
  const actions = 'Actions for test'
  for (const [name, item] of [
    ['New key'],
    ['Revoke all…'],
    [actions, 'Edit'],
    [actions, 'Rotate'],
    [actions, 'Revoke'],
  ] as const) {
    const button = page.getByRole('button', { name, exact: true }).first()
    await button.focus()
    await page.keyboard.press('Enter')
    if (item) {
      await page.getByRole('menuitem', { name: item }).waitFor()
      while (!String(await page.evaluate('document.activeElement.textContent')).includes(item)) {
        await page.keyboard.press('ArrowDown')
      }
      await page.keyboard.press('Enter')
    }
    await page.getByRole('dialog').getByRole('button').nth(1).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await poll(
      async () => (await page.evaluate(focusedName)) === name,
      `${name} has the focus again`,
    )
    t.ok(true, name)
  }
  await act(page, 'Revoke', 'test')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Revoke', exact: true }).press('Enter')
  await page.getByText('Revoked everywhere: test').waitFor()
  await page.getByRole('button', { name: actions }).nth(1).waitFor({ state: 'detached' })
  await dialog.waitFor({ state: 'detached' })
  await poll(
    () => page.evaluate(`document.activeElement.tagName !== 'BODY'`) as Promise<boolean>,
    'the focus is not lost with the button',
  )
})

test('an error has the sentence of the API and the id of the request', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(503)
  await signIn(gateway.newUser())
  const message = 'The key store is unavailable.'
  await page.route('**/v1/models', (route) =>
    route.fulfill({
      status: 503,
      headers: { 'x-request-id': 'request-7' },
      json: { error: { message, type: 'server_error', code: 'unavailable' } },
    }),
  )
  await page.getByRole('link', { name: 'Models' }).click()
  const alert = page.getByRole('alert')
  await alert.getByText(message).waitFor()
  await alert.getByText('503 unavailable, request request-7').waitFor()
  await isAccessible(t, page, 'an error')
})

test('a filter shows what the address has', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(user)
  const find = page.getByLabel('Find')
  await find.pressSequentially('no such ')
  await page.waitForURL(/find=no/)
  await find.pressSequentially('key')
  await page.waitForURL(/find=no\+such\+key/)
  t.equal(await find.inputValue(), 'no such key', 'nothing typed is lost')
  await page.getByRole('button', { name: 'Show keys of every status' }).click()
  await page.getByRole('row', { name: 'test' }).waitFor()
  t.equal(await find.inputValue(), '')
  await find.fill('absent')
  await page.getByText('No key fits').waitFor()
  await page.getByRole('link', { name: 'API keys' }).click()
  await page.getByRole('row', { name: 'test' }).waitFor()
  t.equal(await find.inputValue(), '')
})

test('the focus stays where the user is, although a page is slow', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  let letGo: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  await page.route(`**/v1/api-keys/${id}`, async (route) => {
    await held
    await route.continue()
  })
  await signIn(user, `keys/${id}`)
  await page.getByRole('link', { name: 'Usage' }).focus()
  letGo()
  await page.getByRole('heading', { name: 'test', level: 1 }).waitFor()
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Usage')
  t.equal(await page.title(), 'test · Tollgate')
})

test('cards use the width that they have', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await gateway.mint({ user })
  await signIn(user)
  await page.getByRole('row', { name: 'test' }).waitFor()
  for (const [viewport, most] of [
    [narrow, 4],
    [{ width: 800, height: 600 }, 3],
  ] as const) {
    await page.setViewportSize(viewport)
    const tops = async () => (await page.evaluate(topsOfCells)) as number[]
    t.equal((await tops()).length, 5)
    // The page is laid out anew only after it has learned of its width.
    const isWithin = async () => new Set(await tops()).size < most
    await poll(isWithin, `fewer than ${most} lines at ${viewport.width}`)
  }
})

/** Of the cells below the heading of a card. */
const topsOfCells = `[...document.querySelectorAll('.data td:not(:first-child, [data-kind=acts])')]
  .map((each) => Math.round(each.getBoundingClientRect().top))`

test('the answer to a question follows the focus', async (t, { page, gateway, signIn }) => {
  await signIn(gateway.newUser(), 'explain')
  for (const model of ['llm/sim', 'llm/none']) {
    await page.getByLabel('Model').fill(model)
    await page.getByRole('button', { name: 'Would it pass?' }).press('Enter')
    await page.getByText(model === 'llm/sim' ? 'It would pass.' : 'It would be refused').waitFor()
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Why?', model)
    t.equal(await page.getByLabel('Model').inputValue(), model)
  }
})

test('times are local, with UTC on hover', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  const { text } = await gateway.ask(`/v1/api-keys/${id}`, `token-${user}`)
  const { createdAt } = JSON.parse(text)
  await signIn(user, `keys/${id}`)
  const time = page.locator(`time[datetime="${createdAt}"]`)
  const local = new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'medium',
    timeStyle: 'short',
    timeZone: 'Europe/Berlin',
  })
  t.equal(await time.innerText(), local.format(new Date(createdAt)))
  t.equal(await time.getAttribute('title'), `${createdAt.replace('T', ' ').replace('Z', '')} UTC`)
})

test('numbers and dates are English in every browser', async (t, { page, gateway, expected }) => {
  expected.add(400)
  const locale = 'de-DE'
  const context = await openContext(t, page.context().browser() as Browser, { locale })
  const { page: german } = await watchPage(context)
  const user = gateway.newUser()
  const limits = [{ limit: 10_000, window: '1h' }]
  const body = JSON.stringify({ name: 'ten', subscription: 'plenty', tokenRateLimits: limits })
  const made = await gateway.ask('/v1/api-keys', `token-${user}`, { method: 'POST', body })
  const { id, expiresAt } = JSON.parse(made.text)
  await german.goto(`${gateway.url}/console/keys/${id}`)
  await german.getByLabel('Identity token').fill(`token-${user}`)
  await german.getByRole('button', { name: 'Sign in' }).click()
  await german.getByText('at most 10,000 tokens per hour').waitFor()
  const english = new Intl.DateTimeFormat('en-GB', {
    ...{ dateStyle: 'medium', timeStyle: 'short', timeZone: 'Europe/Berlin' },
  })
  t.equal(
    await german.locator(`time[datetime="${expiresAt}"]`).innerText(),
    english.format(new Date(expiresAt)),
  )
  await german.getByRole('button', { name: 'Edit…' }).click()
  await german.getByLabel('Token limits').fill('9.000/1h')
  await german.getByRole('button', { name: 'Save' }).click()
  await german.getByText('Line 1: the number must be a whole number').waitFor()
})

test('no token is in an address, in lasting storage, in the log or in a referrer', async (t, world) => {
  const { page, gateway, signIn } = world
  const seen: string[] = []
  page.on('request', (request) => {
    seen.push(request.url(), request.headers().referer ?? '', request.postData() ?? '')
  })
  page.on('console', (message) => seen.push(message.text()))
  page.on('framenavigated', (frame) => seen.push(frame.url()))
  await signIn(gateway.newUser())
  await page.getByRole('button', { name: 'New key' }).click()
  await page.getByLabel('Name').fill('seen by nobody')
  await page.getByRole('button', { name: 'Create key' }).click()
  const key = (await page.getByTestId('key').textContent()) ?? ''
  t.match(key, /^sk-/)
  await page.getByLabel('Use it with').selectOption('Claude Code')
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await go(page, 'models/llm/sim', 'llm/sim')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(/tokens: .* of the answer/).waitFor()
  for (const [path, heading] of pages.slice(0, 8)) await go(page, path, heading)
  seen.push(
    String(
      await page.evaluate(
        // The identity token is kept for this tab.
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage, "tollgate-token": "" }, document.cookie, history.state])',
      ),
    ),
  )
  for (const text of seen) {
    t.notMatch(text, /sk-|token-user/)
  }
  t.notMatch(String(await page.evaluate('sessionStorage["tollgate-token"]')), /sk-/, 'no API key')
  t.ok(seen.length > 30)
})
