import type { Page } from 'playwright-core'
import root from 'tap'
import { type ConsoleTest, consoleTests, isAccessible } from '../support/console.ts'
import { accessPolicy, modelRef, subscription, type WrittenDocument } from '../support/documents.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const hostile = '<img src=x onerror=document.title=1>'

function displayed(document: WrittenDocument): WrittenDocument {
  const annotations = {
    'openshift.io/display-name': hostile,
    'openshift.io/description': hostile,
  }
  return { ...document, metadata: { ...document.metadata, annotations } }
}

/** More than a page of the table of access shows. */
const users = Array.from({ length: 60 }, (_, i) => `somebody-${i}`)
const team = { groups: ['team', 'tollgate-admins', hostile], users: [hostile] }

const test = consoleTests({
  env: { USAGE_JOURNAL: `${temporaryFolder(root)}/usage.jsonl` },
  resources: (backendUrl) => [
    displayed(modelRef('sim', { backendUrl })),
    accessPolicy('open', ['llm/sim'], { ...team, users: [...team.users, ...users] }),
    displayed(subscription('plenty', team, { 'llm/sim': [[1_000_000, '1h']] })),
  ],
})

/** Every page, with its heading; the last ones are for administrators. */
const pages = [
  ['keys', 'API keys'],
  ['models', 'Models'],
  ['models/llm/sim', 'llm/sim'],
  ['usage?by=key', 'Usage'],
  ['explain?model=llm/sim&subscription=plenty', 'Why?'],
  ['nowhere', 'There is no such page'],
  ['access', 'Access'],
  ['resources', 'Resources'],
  ['refusals', 'Refusals'],
  ['state', 'State'],
] as const

/** Makes a key with names that look like markup, uses it, and is refused with it. */
async function prepare({ gateway }: ConsoleTest, user: string): Promise<string> {
  const body = {
    name: hostile,
    description: hostile,
    labels: { about: hostile },
    subscription: 'plenty',
  }
  const { text } = await gateway.ask('/v1/api-keys', `token-${user}`, {
    method: 'POST',
    body: JSON.stringify(body),
  })
  const { id, key } = JSON.parse(text)
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

test('every page is accessible and shows names as text', async (t, world) => {
  const { page, signIn } = world
  const id = await prepare(world, 'admin')
  await signIn('admin')
  for (const [path, heading] of [...pages, [`keys/${id}`, hostile] as const]) {
    await go(page, path, heading)
    await isAccessible(t, page, heading)
    t.equal(await page.locator('main img').count(), 0, `${heading} has no image`)
    t.equal(await page.title(), `${heading} · Tollgate`)
  }
})

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

const focusedName = `document.activeElement.ariaLabel ?? document.activeElement.textContent`

test('the focus returns after each dialog', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  for (let i = 0; i < 2; i += 1) await gateway.mint({ user })
  await signIn(user)
  for (const name of ['New key', 'Revoke all…', 'Edit test', 'Rotate test', 'Revoke test']) {
    const button = page.getByRole('button', { name, exact: true }).first()
    await button.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('button').nth(1).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await poll(
      async () => (await page.evaluate(focusedName)) === name,
      `${name} has the focus again`,
    )
    t.ok(true, name)
  }
  const revoke = page.getByRole('button', { name: 'Revoke test' }).first()
  await revoke.focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Revoke', exact: true }).press('Enter')
  await dialog.getByText('Revoked everywhere').waitFor()
  await page.getByRole('button', { name: 'Revoke test' }).nth(1).waitFor({ state: 'detached' })
  await page.keyboard.press('Escape')
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

test('no token is in an address, in storage, in the log or in a referrer', async (t, world) => {
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
  for (const [path, heading] of pages.slice(0, 6)) await go(page, path, heading)
  seen.push(
    String(
      await page.evaluate(
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state])',
      ),
    ),
  )
  for (const text of seen) {
    t.notMatch(text, /sk-|token-user/)
  }
  t.ok(seen.length > 30)
})

interface Measured {
  /** From the click until the rows are painted, in milliseconds; the last answer came after `apiMs`. */
  readonly ms: number
  readonly apiMs: number
  readonly rows: number
}

const tables = [
  ['Keys of everybody', 25],
  ['Models', 100],
  ['Usage of everybody', 1_000],
  ['Access', 50],
  ['Resources', 50],
  ['Refusals', 200],
  ['State', 100],
] as const

/** Opens a page by its link, and reads the clock once its table has been painted. */
const measure = (label: string) => `new Promise((resolve) => {
  const link = [...document.querySelectorAll('nav a')].find((each) => each.textContent === '${label}')
  const since = performance.now()
  link.click()
  const rows = () => document.querySelectorAll('.scrolls tbody tr').length
  const look = () => {
    if (rows() === 0) return setTimeout(look)
    requestAnimationFrame(() => setTimeout(() => {
      const ms = performance.now() - since
      const answers = performance.getEntriesByType('resource').map(({ responseEnd }) => responseEnd - since)
      resolve({ ms, apiMs: Math.max(0, ...answers.filter((each) => each < ms)), rows: rows() })
    }))
  }
  look()
})`

test('tables have a page of rows at most, and how long they take', async (t, world) => {
  const { page, signIn } = world
  await prepare(world, 'admin')
  await signIn('admin')
  const paint = `performance.getEntriesByName('first-contentful-paint')[0].startTime`
  t.comment(`first paint: ${Math.round((await page.evaluate(paint)) as number)} ms`)
  for (const [label, most] of tables) {
    // From a page without a table, which asks for nothing any more.
    await go(page, 'explain', 'Why?')
    const { ms, apiMs, rows } = (await page.evaluate(measure(label))) as Measured
    t.comment(`${label}: ${Math.round(ms)} ms for ${rows} rows, the API ${Math.round(apiMs)} ms`)
    t.ok(rows > 0 && rows <= most, `${label} has ${rows} rows`)
    if (label === 'Access') t.equal(rows, most, 'there are more')
  }
})
