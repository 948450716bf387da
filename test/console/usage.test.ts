import { readFileSync } from 'node:fs'
import type { Browser } from 'playwright-core'
import { launch, openPage } from '../support/browser.ts'
import { consoleTests, isAccessible } from '../support/console.ts'
import { type Gateway, models, subscriptions } from '../support/gateway.ts'
import { keepPicture } from '../support/pictures.ts'
import { poll } from '../support/poll.ts'

const test = consoleTests({
  resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ plenty: 3_000 })],
})

/** Makes a key, uses it and waits until the usage is in the ledger. */
async function use(gateway: Gateway, user: string): Promise<void> {
  const { key } = await gateway.mint({ user })
  await gateway.chat(key, { totalTokens: 1_234 })
  await gateway.chat(key, { totalTokens: 66 }, { model: 'other' }, '/llm/other/v1/chat/completions')
  await poll(async () => {
    const { text } = await gateway.ask('/v1/usage', `token-${user}`)
    return JSON.parse(text).data[0]?.total_tokens === 1_300
  }, 'the usage is in the ledger')
}

test('a person sees what was used, by model and by key', async (t, world) => {
  const { page, gateway, signIn } = world
  const [user, other] = [gateway.newUser(), gateway.newUser()]
  await use(gateway, user)
  await use(gateway, other)
  await signIn(user)
  await page.getByRole('link', { name: 'Usage' }).click()
  const row = page.getByRole('row', { name: 'llm/sim' })
  await row.getByRole('cell', { name: '1,234' }).waitFor()
  await page.getByRole('row', { name: 'llm/other' }).getByRole('cell', { name: '66' }).waitFor()
  await row.getByRole('cell', { name: '95%' }).waitFor()
  await page.getByRole('img', { name: /^Tokens by day and model/ }).waitFor()
  await page.locator(bars).first().waitFor()
  await page.locator(bars).first().hover()
  const shown = page.locator('.tip')
  t.match(await shown.innerText(), /1,300.*llm\/sim\s*1,234.*llm\/other\s*66/s, 'numbers on hover')
  await isAccessible(t, page, 'usage')
  await keepPicture(page, 'usage')

  await page.getByLabel('By', { exact: true }).selectOption('By key')
  const key = page.getByRole('row', { name: 'test' })
  await key.getByRole('cell', { name: '1,300' }).waitFor()
  t.match(page.url(), 'by=key')
  await page.getByText('24 hours').click()
  await page.getByRole('img', { name: /^Tokens by hour and key/ }).waitFor()

  const saving = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save as CSV' }).click()
  const download = await saving
  t.equal(download.suggestedFilename(), 'usage-24h-by-key.csv')
  const text = readFileSync(await download.path(), 'utf8')
  t.match(text, /^start,key_id,answers,.*\r\n.*,2,0,.*,1300,0,0,1300,\r\n$/)
})

test('keys have their names, also those beyond the first page', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  // As if a hundred other keys had been used later.
  const others = Array.from({ length: 100 }, (_, at) => ({ id: `other-${at}`, name: 'other' }))
  await page.route('**/v1/api-keys/search', async (route) => {
    const body = route.request().postDataJSON()
    const { offset = 0 } = body.pagination
    if (offset === 0) return route.fulfill({ json: { data: others, has_more: true } })
    const pagination = { ...body.pagination, offset: offset - 100 }
    await route.continue({ postData: JSON.stringify({ ...body, pagination }) })
  })
  await signIn(user, 'usage?by=key')
  const row = page.getByRole('row', { name: 'test' })
  await row.getByRole('cell', { name: '1,300' }).waitFor()
  t.equal(await row.count(), 1)
})

test('usage stands beside what is left, and one limit beside its bars', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  await signIn(user, 'usage?span=24h')
  const left = page.getByRole('region', { name: 'What is left now' })
  await left.getByText('1,766 left of 3,000 tokens per hour').waitFor()
  await page.locator(bars).first().waitFor()
  t.equal(await page.locator(line).count(), 0, 'no line for two models together')
  await page.getByLabel('Model', { exact: true }).fill('llm/sim')
  await page.getByText('The limit is 3,000 tokens per hour, in plenty').waitFor()
  await page.locator(line).waitFor({ state: 'attached' })
  t.equal(await left.getByText('left of').count(), 1)
  await isAccessible(t, page, 'usage of one model')
})

test('a finger on a bar shows its numbers', async (t, { page: shared, gateway }) => {
  const user = gateway.newUser()
  await use(gateway, user)
  const browser = shared.context().browser() as Browser
  const { page } = await openPage(t, browser, { hasTouch: true })
  await page.goto(`${gateway.url}/console/usage`)
  await page.getByLabel('Identity token').fill(`token-${user}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  const plot = page.getByRole('img', { name: /^Tokens by day/ })
  const { width = 0 } = (await plot.boundingBox()) ?? {}
  await plot.tap({ position: { x: width - 20, y: 60 } })
  await page.locator('.tip').getByText('llm/sim').waitFor()
})

test('very large numbers are whole', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await use(gateway, user)
  await page.route('**/v1/usage?*', async (route) => {
    const response = await route.fetch()
    const json = await response.json()
    const large = { total_tokens: 9e15, answers: 9e15, cached_tokens: 9e15, input_tokens: 9e15 }
    for (const row of json.data) Object.assign(row, large)
    await route.fulfill({ response, json })
  })
  await page.setViewportSize({ width: 360, height: 640 })
  await signIn(user, 'usage')
  await page.getByRole('img', { name: /^Tokens by day/ }).waitFor()
  const cut = `[...document.querySelectorAll('.bars text, .sums span, .data td > div')]
    .filter((each) => {
      const { left, right } = each.getBoundingClientRect()
      const card = each.closest('.bars, .sums, td').getBoundingClientRect()
      const isWide = each.scrollWidth > each.clientWidth && each.matches('td > div')
      return left < card.left - 1 || right > card.right + 1 || isWide
    })
    .map((each) => each.textContent)`
  t.strictSame(await page.evaluate(cut), [])
})

test('a key has a page, with its use today and this month', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  await signIn(user)
  await page.getByRole('link', { name: 'test', exact: true }).click()
  const used = page.getByRole('region', { name: 'Used' })
  await used.getByRole('row', { name: 'Tokens 1,300 1,300' }).waitFor()
  await isAccessible(t, page, 'a key')
  await keepPicture(page, 'key')
  const address = page.url()
  await used.getByRole('link').click()
  await page.getByText('Only of the key test.').waitFor()
  await page.getByRole('row', { name: 'llm/sim' }).getByRole('cell', { name: '1,234' }).waitFor()
  await page.getByRole('link', { name: 'All keys' }).click()
  await page.getByText('Only of the key').waitFor({ state: 'detached' })
  expected.add(404)
  await signIn(gateway.newUser(), new URL(address).pathname.replace('/console/', ''))
  await page.getByText('There is no such API key.').waitFor()
  t.equal(await page.getByRole('region', { name: 'Used' }).count(), 0)
})

test('the CSV has all pages of a long result', async (t, { page, gateway, signIn }) => {
  const user = gateway.newUser()
  await use(gateway, user)
  const asked: string[] = []
  await page.route('**/v1/usage?*format=csv*', async (route) => {
    const url = new URL(route.request().url())
    const at = Number(url.searchParams.get('cursor') ?? 0)
    asked.push(url.searchParams.get('group_by') ?? '')
    url.searchParams.set('cursor', String(at + 1))
    const link = at < 6 && `<${url.search}>; rel="next"`
    const headers = { 'content-type': 'text/csv', ...(link && { link }) }
    await route.fulfill({ headers, body: `start,model,answers\r\nday,row ${at},1\r\n` })
  })
  await signIn(user, 'usage')
  const saving = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save as CSV' }).click()
  const text = readFileSync(await (await saving).path(), 'utf8')
  const rows = Array.from({ length: 7 }, (_, at) => `day,row ${at},1`)
  t.strictSame(text.split('\r\n'), ['start,model,answers', ...rows, ''])
  t.strictSame(new Set(asked), new Set(['day,model']), 'each page of the same query')
})

/** What is drawn of the series, and of the limit. */
const bars = '.bars svg path[fill="#4c6ef5"]'
const line = '.bars svg line.ceiling'

test('a browser without a language shows the page, and the plot', async (t, { gateway }) => {
  const browser = await launch(t, { LANG: 'C', LC_ALL: 'C', LANGUAGE: '' })
  if (browser === undefined) return
  // No context of `openPage`: that has a language.
  const page = await browser.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  const user = gateway.newUser()
  await use(gateway, user)
  await page.goto(`${gateway.url}/console/usage`)
  t.match(await page.evaluate('navigator.languages'), ['en-US@posix'])
  await page.getByLabel('Identity token').fill(`token-${user}`)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('row', { name: 'llm/sim' }).getByRole('cell', { name: '1,234' }).waitFor()
  await page.locator(bars).first().waitFor()
  t.strictSame(complaints, [])
})

test('only an administrator sees the usage of others', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  const user = gateway.newUser()
  await use(gateway, user)
  await signIn(gateway.newUser(), `usage?owner=${user}&by=user`)
  await page.getByText('Nothing was used in this time').waitFor()
  t.equal(await page.getByRole('radiogroup', { name: 'Whose usage' }).count(), 0)
  await isAccessible(t, page, 'no usage')
  await signIn('admin', 'usage?owner=*&by=user')
  await page.getByRole('row', { name: user }).getByRole('cell', { name: '1,300' }).waitFor()
  await page.getByRole('textbox', { name: 'User' }).fill('nobody')
  await page.getByText('Nothing was used in this time').waitFor()
  expected.add(403)
  const asked = await gateway.ask(`/v1/usage?user=${user}`, `token-${gateway.newUser()}`)
  t.equal(asked.status, 403)
})
