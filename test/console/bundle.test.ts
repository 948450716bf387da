import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { test } from 'tap'
import { consoleFolder } from '../../src/console/console.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** The text of each file below a folder, by its path. */
function read(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const named = files.filter((name) => /\.\w+$/.test(name)).sort()
  return Object.fromEntries(named.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

test('the built console is that of its sources', async (t) => {
  const folder = temporaryFolder(t)
  const vite = join(packageRoot, 'node_modules', 'vite', 'bin', 'vite.js')
  const args = ['build', 'console', '--outDir', folder, '--emptyOutDir', '--logLevel', 'warn']
  execFileSync(process.execPath, [vite, ...args], { cwd: packageRoot, stdio: 'inherit' })
  const [built, committed] = [read(folder), read(consoleFolder)]
  t.strictSame(Object.keys(committed), Object.keys(built), 'run: npm run console')
  for (const [name, text] of Object.entries(built))
    t.ok(committed[name] === text, `${name}, or run: npm run console`)
})

test('the console is smaller than 250 KB compressed', async (t) => {
  const bytes = Object.values(read(consoleFolder)).reduce(
    (sum, text) => sum + gzipSync(text).length,
    0,
  )
  t.comment(`${Math.round(bytes / 1_000)} KB`)
  t.ok(bytes < 250_000, `${bytes} bytes`)
})

test('nothing in the page is inline', async (t) => {
  const page = readFileSync(join(consoleFolder, 'index.html'), 'utf8')
  t.notMatch(page, /<style|\sstyle=|\son\w+=/)
  for (const [script] of page.matchAll(/<script[^>]*>/g)) t.match(script, ' src="/console/assets/')
})
