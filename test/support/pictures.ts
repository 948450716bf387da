import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { showIn } from './browser.ts'

/** Where pictures are kept for people to look at; no test compares them. */
const folder = process.env.PICTURES ?? join(packageRoot, '.data', 'pictures')

/** Takes pictures of the page in light and in dark colours. */
export async function keepPicture(page: Page, name: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  for (const colorScheme of ['dark', 'light'] as const) {
    await showIn(page, colorScheme)
    const suffix = colorScheme === 'dark' ? '-dark' : ''
    await page.screenshot({ path: join(folder, `${name}${suffix}.png`) })
  }
}
