import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { parse } from 'yaml'
import { problemsOf } from '../../package/check-release.ts'
import { notesOf } from '../../package/release-notes.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'

const read = (path: string): string => readFileSync(join(packageRoot, path), 'utf8')
const { version } = JSON.parse(read('package.json')) as { version: string }
const row = '| A Name | a@example.org | all |\n'
const ready = {
  tag: `v${version}`,
  packageJson: read('package.json'),
  changelog: `## [${version}] - 2026-03-01\n\n- New.\n\n## [0.0.1] - 2026-01-01\n`,
  maintainers: `${read('MAINTAINERS.md')}${row}`,
}

test('a release fails while nobody maintains it', async (t) => {
  t.strictSame(problemsOf(ready), [])
  t.match(problemsOf({ ...ready, maintainers: read('MAINTAINERS.md') }), [
    /MAINTAINERS\.md names nobody/,
  ])
  t.match(problemsOf({ ...ready, maintainers: row }), [/names nobody/], 'the mark is missing')
  t.match(problemsOf({ ...ready, tag: 'v9.9.9' }), [/v9\.9\.9 is not v/])
  t.match(problemsOf({ ...ready, changelog: '## [Unreleased]\n' }), [/no section/])
  t.match(problemsOf({ ...ready, changelog: `## [${version}] - unreleased\n` }), [/no section/])
})

test('release notes are those of the version', async (t) => {
  const upgrade = '# Upgrade\n\n## What changes for whom\n\n- You.\n\n## The way back\n'
  t.equal(
    notesOf(ready.tag, ready.changelog, upgrade),
    '- New.\n\n### What changes for whom\n\n- You.',
  )
  t.equal(notesOf('v9.9.9', ready.changelog, upgrade), undefined)
  t.match(notesOf(ready.tag, read('CHANGELOG.md'), read('docs/upgrade.md')), '### Operation')
})

test('the index lists every decision', async (t) => {
  const index = read('docs/decisions/README.md')
  for (const name of readdirSync(join(packageRoot, 'docs', 'decisions'))) {
    if (/^\d/.test(name)) t.match(index, `](${name})`, name)
  }
})

test('workflows and templates are readable, and name no registry', async (t) => {
  for (const folder of ['.github/workflows', '.github/ISSUE_TEMPLATE']) {
    for (const name of readdirSync(join(packageRoot, folder))) {
      const text = read(`${folder}/${name}`)
      t.ok(parse(text), name)
      t.notMatch(text, /(ghcr|docker|quay|npmjs)\.(io|com|org)/, name)
    }
  }
  t.ok(JSON.parse(read('renovate.json')))
})
