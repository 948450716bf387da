import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { showIn } from './browser.ts'

/**
 * Where pictures are stored for people to look at; no test compares them. Drawing them takes a tenth of the time of the
 * console's tests.
 */
const folder = process.env.PICTURES

/** Takes pictures of the page in light and in dark colours, if PICTURES is set. */
export async function keepPicture(page: Page, name: string): Promise<void> {
  if (!folder) return
  mkdirSync(folder, { recursive: true })
  for (const colorScheme of ['dark', 'light'] as const) {
    await showIn(page, colorScheme)
    const suffix = colorScheme === 'dark' ? '-dark' : ''
    await page.screenshot({ path: join(folder, `${name}${suffix}.png`) })
  }
}
