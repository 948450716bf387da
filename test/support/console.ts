/** Tests that use the console in a real browser, through a real gateway. */

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import root, { type Test } from 'tap'
import { openContext, showIn, startBrowser, type WatchedPage, watchPage } from './browser.ts'
import { envoyPath } from './envoy-binary.ts'
import { type Gateway, type GatewaySettings, startGateway } from './gateway.ts'

export interface ConsoleTest extends WatchedPage {
  readonly gateway: Gateway
  /**
   * Opens a path below /console, by default the page of keys, and signs in as this user of the gateway, even if another
   * user is signed in.
   */
  signIn(user: string, path?: string): Promise<void>
}

/** Maximum duration of an action in the browser, in milliseconds. */
const timeout = 20_000

/**
 * Returns `test` for a file whose tests share one gateway and one browser. Each has its own page with empty storage and
 * cookies, and fails if the page has reported an error or called an origin other than the gateway and `others`. Skipped
 * without Envoy or Chromium.
 */
export function consoleTests(
  settings: GatewaySettings = {},
  others: readonly string[] = [],
): (title: string, body: (t: Test, console: ConsoleTest) => Promise<unknown>) => void {
  let starting: Promise<Gateway> | undefined
  let shared: Promise<BrowserContext> | undefined
  return (title, body) => {
    root.test(title, { skip: envoyPath() === undefined && 'no Envoy' }, async (t) => {
      const browser = await startBrowser(root)
      if (browser === undefined) return void t.pass('no Chromium runs here', { skip: true })
      starting ??= startGateway(root, { lists: true, ...settings })
      const gateway = await starting
      shared ??= openShared(browser, gateway)
      const context = await shared
      const watched = await watchPage(context)
      const { page, complaints, origins } = watched
      t.teardown(async () => {
        await Promise.all(
          context
            .pages()
            .slice(1)
            .map((each) => each.close()),
        )
        await context.clearCookies()
        await context.pages()[0]?.evaluate('localStorage.clear()')
      })
      const signIn: ConsoleTest['signIn'] = async (user, path = 'keys') => {
        if (page.url().startsWith(gateway.url)) {
          await page.evaluate("sessionStorage.removeItem('tollgate-token')")
        }
        await page.goto(`${gateway.url}/console/${path}`)
        await page.getByLabel('Identity token').fill(`token-${user}`)
        await page.getByRole('button', { name: 'Sign in' }).click()
        await page.getByRole('button', { name: 'Sign out' }).waitFor({ timeout })
      }
      await body(t as Test, { ...watched, gateway, signIn })
      t.strictSame(complaints, [], 'the page has no complaints')
      const foreign = [...origins].filter((each) => each !== gateway.url && !others.includes(each))
      t.strictSame(foreign, [], 'the page calls only its own origin')
    })
  }
}

/** A context whose first page, a refusal, stays open: the process of its site lasts until the last page is closed. */
async function openShared(browser: Browser, { url }: Gateway): Promise<BrowserContext> {
  const context = await openContext(root, browser)
  const first = await context.newPage()
  await first.goto(`${url}/v1/me`)
  return context
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeResult {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
  }[]
}

/** For `addInitScript`: the response to the first POST to this path is lost after 40 bytes. */
export function cutOnce(path: string): string {
  return `{
    const real = window.fetch
    let isCut = false
    window.fetch = async (address, init) => {
      const response = await real(address, init)
      if (isCut || address !== ${JSON.stringify(path)} || init?.method !== 'POST') return response
      isCut = true
      const pieces = [(await response.text()).slice(0, 40)]
      const body = new ReadableStream({
        pull(control) {
          const piece = pieces.pop()
          if (piece === undefined) control.error(new TypeError('network error'))
          else control.enqueue(new TextEncoder().encode(piece))
        },
      }, { highWaterMark: 0 })
      return new Response(body, response)
    }
  }`
}

/** Opens the menu of a key and chooses an entry. */
export async function act(
  page: Page,
  what: 'Edit' | 'Rotate' | 'Revoke',
  key: string,
): Promise<void> {
  await page
    .getByRole('button', { name: `Actions for ${key}`, exact: true })
    .first()
    .click()
  await page.getByRole('menuitem', { name: what }).click()
}

/** The rules that check colours; all others give the same result in both schemes. */
const ofColours = ['color-contrast', 'link-in-text-block']

/** Fails for each serious problem that axe finds, in both colour schemes. */
export async function isAccessible(t: Test, page: Page, what: string): Promise<void> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe)
  for (const colorScheme of ['light', 'dark'] as const) {
    await showIn(page, colorScheme)
    const rules = colorScheme === 'light' ? {} : { runOnly: ofColours }
    const options = JSON.stringify({ resultTypes: ['violations'], ...rules })
    const { violations } = (await page.evaluate(`axe.run(${options})`)) as AxeResult
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
    const found = serious.map(({ id, nodes }) => [
      id,
      ...nodes.map((node) => node.failureSummary + node.html),
    ])
    t.strictSame(found, [], `${what}, ${colorScheme}`)
  }
}
