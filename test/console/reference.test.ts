import { consoleTests, cutOnce, isAccessible } from '../support/console.ts'
import { keepPicture } from '../support/pictures.ts'

const test = consoleTests()

test('an operation is described, and tried with the credential of the session', async (t, world) => {
  const { page, gateway, signIn } = world
  const user = gateway.newUser()
  await signIn(user)
  await page.getByRole('link', { name: 'API reference' }).click()
  await page.getByRole('region', { name: 'API keys' }).getByText('Create an API key').waitFor()
  await page.getByRole('textbox', { name: 'Find' }).fill('who you are')
  await page.getByText('Read who you are').click()
  await page.getByText('With a key, those of its creation.').waitFor()
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(`"username": "${user}"`).waitFor()
  await isAccessible(t, page, 'an operation')
  await keepPicture(page, 'reference')

  await page.getByRole('textbox', { name: 'Find' }).fill('')
  const search = page.getByRole('group').filter({ hasText: '/v1/api-keys/search' })
  await page.getByText('/v1/api-keys/search', { exact: true }).click()
  await search.getByLabel('Body').fill('{')
  await search.getByRole('button', { name: 'Send' }).click()
  await search.getByText(/^Not sent: SyntaxError/).waitFor()
  await search.getByLabel('Body').fill('{}')
  await search.getByRole('button', { name: 'Send' }).click()
  await search.getByText('"has_more": false').waitFor()
})

test('what the API refuses is shown, and a path has its parameter', async (t, world) => {
  const { page, gateway, expected, signIn } = world
  expected.add(404)
  const user = gateway.newUser()
  const { id } = await gateway.mint({ user })
  await signIn(user, 'reference')
  await page.getByText('Read an API key', { exact: true }).click()
  await page.getByRole('textbox', { name: 'id', exact: true }).fill('absent?x#y')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('alert').getByText('There is no such API key.').waitFor()
  await page.getByRole('textbox', { name: 'id', exact: true }).fill(id)
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(`"username": "${user}"`).waitFor()
  await isAccessible(t, page, 'an answer')
})

test('a response that is no JSON is shown, and what was sent is not called unsent', async (t, world) => {
  const { page, gateway, signIn } = world
  await page.addInitScript(cutOnce('/v1/api-keys/search'))
  await signIn(gateway.newUser(), 'reference')
  const usage = page.getByRole('group').filter({ hasText: 'GET/v1/usage' })
  await page.getByText('/v1/usage', { exact: true }).click()
  await usage.getByLabel('format').fill('csv')
  await usage.getByRole('button', { name: 'Send' }).click()
  await usage.getByText(/^start,answers,/).waitFor()
  await isAccessible(t, page, 'a response as text')

  const search = page.getByRole('group').filter({ hasText: '/v1/api-keys/search' })
  await page.getByText('/v1/api-keys/search', { exact: true }).click()
  await search.getByRole('button', { name: 'Send' }).click()
  const alert = search.getByRole('alert')
  await alert.getByText('The connection was lost before the end of the response.').waitFor()
  await search.getByText('The request may have taken effect.').waitFor()
  t.equal(await page.getByText('Not sent').count(), 0)
  await search.getByRole('button', { name: 'Send' }).click()
  await search.getByText('"has_more": false').waitFor()
})

test('the reference outside of the console leads to it, also in the dark', async (t, world) => {
  // Not the watched page: Swagger's own styles are refused in part.
  const page = await world.page.context().newPage()
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.goto(`${world.gateway.url}/docs`)
  await page.getByText('Create an API key').waitFor()
  const color = await page.evaluate('getComputedStyle(document.body).backgroundColor')
  t.equal(color, 'rgb(28, 32, 34)')
  await page.getByRole('link', { name: 'Tollgate console' }).click()
  await page.getByLabel('Identity token').waitFor()
  t.match(page.url(), '/console/reference')
})
