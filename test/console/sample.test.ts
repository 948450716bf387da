import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { launch, openPage } from '../support/browser.ts'
import { runAt } from '../support/command.ts'
import { isAccessible } from '../support/console.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { keepPicture } from '../support/pictures.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'

const skip = envoyPath() === undefined && 'no Envoy'

/** Everything in the folder that is text and small; the database is not of our writing. */
function textsIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.startsWith('postgres') && statSync(join(folder, name)).isFile())
    .map((name) => readFileSync(join(folder, name), 'latin1'))
}

root.test(
  'one click signs in whoever has the link, and no page but the console',
  { skip },
  async (t) => {
    const dataDir = temporaryFolder(t as Test)
    const { ENVOY_PATH = '' } = await ownSettings(dataDir)
    const settings = { DATA_DIR: dataDir, ENVOY_PATH, GATEWAY_ADDRESS: '127.0.0.1:0' }
    // The name of a hostile page that has come to lead to this machine.
    const browser = await launch(t as Test, {}, [
      '--host-resolver-rules=MAP evil.example 127.0.0.1',
    ])
    if (browser === undefined) return void t.pass('no Chromium runs here', { skip: true })
    const up = runTollgate(t as Test, ['up'], settings)
    await up.until('Ctrl-C stops everything.')
    const [link = '', gateway = '', code = ''] =
      /(http:\/\/127\.0\.0\.1:\d+)\/console#sample=([\w-]{22})/.exec(up.output()) ?? []
    t.ok(code, 'the link is printed')
    const own = { origin: gateway, 'sec-fetch-site': 'same-origin' }
    const post = async (headers: Record<string, string>, body: object) => {
      const response = await fetch(`${gateway}/console/sign-in/sample`, {
        ...{ method: 'POST', headers, body: JSON.stringify(body) },
      })
      return { status: response.status, text: await response.text() }
    }

    await t.test('a person looks around as everybody', async (t) => {
      const { page, complaints } = await openPage(t as Test, browser)
      await page.goto(`${gateway}/console`)
      await page.getByText('Open the link that npm start has printed').waitFor()
      t.equal(await page.getByRole('button', { name: 'alice' }).count(), 0, 'not without the link')
      await page.goto(link)
      await page.getByRole('button', { name: 'alice' }).waitFor()
      t.equal(page.url(), `${gateway}/console`, 'the code is not in the address any more')
      for (const role of [/in team A/, /in team B/, /^An administrator: /])
        await page.getByText(role).waitFor()
      await isAccessible(t as Test, page, 'the sign-in to the sample')
      for (const user of ['alice', 'bob', 'admin']) {
        await page.getByRole('button', { name: user }).click()
        for (const again of [false, true]) {
          await page.getByRole('button', { name: 'Sign out' }).waitFor()
          await page
            .getByText(new RegExp(`^${user}\\b`))
            .first()
            .waitFor()
          if (!again) await page.reload()
        }
        await page.getByRole('button', { name: 'Sign out' }).click()
      }
      t.strictSame(complaints, [])
    })

    await t.test('a code of another start gets nothing', async (t) => {
      const { page } = await openPage(t as Test, browser)
      await page.goto(`${gateway}/console#sample=${'x'.repeat(22)}`)
      await page.getByRole('button', { name: 'alice' }).click()
      await page.getByText(/^401 /).waitFor()
      t.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0)
      for (const wrong of [
        '',
        'x',
        `${code}x`,
        code.slice(1),
        code.toLowerCase().padEnd(23, 'x'),
      ]) {
        const { status } = await post(own, { code: wrong, user: 'alice' })
        t.equal(status, wrong === '' ? 400 : 401, wrong)
      }
      t.equal((await post(own, { code, user: 'carol' })).status, 400, 'not one of the three')
      t.equal((await post(own, { user: 'alice' })).status, 400)
    })

    await t.test('requests of other origins are refused, even with the code', async (t) => {
      t.match(await post(own, { code, user: 'alice' }), { status: 200, text: /alice-token/ })
      for (const headers of [
        {},
        { origin: gateway },
        { 'sec-fetch-site': 'same-origin' },
        { ...own, origin: 'null' },
        { ...own, origin: 'http://evil.example' },
        { ...own, origin: gateway.replace('127.0.0.1', 'localhost') },
        { ...own, 'sec-fetch-site': 'same-site' },
        { ...own, 'sec-fetch-site': 'cross-site' },
        { ...own, 'sec-fetch-site': 'none' },
      ] as Record<string, string>[]) {
        const { status, text } = await post(headers, { code, user: 'alice' })
        t.equal(status, 400, JSON.stringify(headers))
        t.notMatch(text, 'alice-token')
      }
    })

    await t.test('hostile pages in the same browser get nothing', async (t) => {
      const server = createServer((_request, response) => {
        response.setHeader('content-type', 'text/html')
        response.end(`<iframe src="${link}"></iframe>`)
      })
      t.teardown(() => server.close())
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const { port } = server.address() as AddressInfo
      const body = JSON.stringify({ code, user: 'alice' })
      const sign = (base: string, mode: string) =>
        `fetch('${base}/console/sign-in/sample', { method: 'POST', mode: '${mode}', body: '${body}' })
        .then((answer) => answer.text(), () => 'not read')`
      // Another port of this machine is the same site, another name of it is not.
      for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
        const { page } = await openPage(t as Test, browser)
        await page.goto(origin)
        t.notMatch(await page.frames()[1]?.content(), 'csp-nonce', 'the frame is empty')
        t.equal(await page.evaluate(sign(gateway, 'cors')), 'not read')
        const answer = page.waitForResponse(/sign-in/)
        t.equal(await page.evaluate(sign(gateway, 'no-cors')), '', 'opaque')
        t.equal((await answer).status(), 400, 'and refused')
      }
      const { page } = await openPage(t as Test, browser)
      const rebound = gateway.replace('127.0.0.1', 'evil.example')
      const opened = await page.goto(`${rebound}/console#sample=${code}`)
      t.equal(opened?.status(), 400, 'the page itself')
      t.match(await page.evaluate(sign('', 'same-origin')), 'Host must be this machine')
      const me = `fetch('/v1/me', { headers: { authorization: 'Bearer alice-token' } })
      .then((answer) => answer.text())`
      t.match(
        await page.evaluate(me),
        'Host must be this machine',
        'nor by the tokens that all know',
      )
    })

    await t.test('the demo gives every page something to show', async (t) => {
      const { status } = await runAt({ env: { DATA_DIR: dataDir } }, 'demo', '--requests', '72')
      t.equal(status, 0)
      const { page, complaints } = await openPage(t as Test, browser, {
        viewport: { width: 1280, height: 800 },
      })
      const goTo = async (path: string) => {
        await page.goto(`${gateway}/console/${path}`, { waitUntil: 'networkidle' })
      }
      await page.goto(link)
      await page.getByRole('button', { name: 'admin' }).click()
      const users = page.getByRole('region', { name: 'Top users' })
      await users.getByRole('listitem').filter({ hasText: 'demo-coding' }).waitFor()
      await page.getByRole('region', { name: 'Tokens by day' }).getByText('llm/sim-large').waitFor()
      t.match(
        await page.getByRole('region', { name: 'Tokens today' }).innerText(),
        /[$].*Yesterday/s,
      )
      const paint = `performance.getEntriesByName('first-contentful-paint')[0].startTime`
      t.comment(`first paint: ${Math.round((await page.evaluate(paint)) as number)} ms`)
      await isAccessible(t as Test, page, 'an overview with two weeks of usage')
      for (const [path, name] of [
        ['', 'administrator'],
        ['usage?owner=*&by=user&span=30d', 'usage'],
        ['refusals', 'refusals'],
      ] as const) {
        await goTo(path)
        await keepPicture(page, `sample-${name}`)
      }
      const change = async (token: string) => {
        await page.evaluate(`sessionStorage.setItem('tollgate-token', '{"token":"${token}"}')`)
        await goTo('')
      }
      await change('demo-coding-token')
      const week = page.getByRole('region', { name: 'This week' })
      await week.getByText(/Last week .*[$]/).waitFor()
      t.equal(await page.getByText('Your first call').count(), 0, 'nobody new')
      await keepPicture(page, 'sample-overview')
      await change('alice-token')
      await page.getByRole('region', { name: 'Last refusals' }).getByText('429').first().waitFor()
      for (const path of ['keys', 'models']) {
        await goTo(path)
        await keepPicture(page, `sample-${path}`)
      }
      const refusal = page.getByRole('link', { name: 'Token limit used up' }).first()
      await goTo('explain')
      await refusal.click()
      await page.getByText(/^Refused then: /).waitFor()
      await keepPicture(page, 'sample-why')
      t.strictSame(complaints, [])
    })

    for (const text of textsIn(dataDir)) t.notOk(text.includes(code), 'a file with the code')
    up.signal('SIGTERM')
    t.equal(await up.ended, 0)
  },
)
