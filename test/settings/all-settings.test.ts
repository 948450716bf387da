import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { renderSettings } from '../../docs/write-settings.ts'
import { settings } from '../../src/settings/all-settings.ts'
import { invalid } from '../../src/settings/readers.ts'
import { settingsList } from '../../src/settings/show.ts'

test('docs/settings.md is up to date', async (t) => {
  const kept = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8')
  t.equal(renderSettings(), kept, 'run: npm run settings')
})

test('every default is a valid value', async (t) => {
  const names = Object.values(settings).map(({ name }) => name)
  t.equal(new Set(names).size, names.length, 'names are unique')
  for (const { name, fallback, otherwise, reader } of Object.values(settings)) {
    if (fallback === undefined) t.not(otherwise, '', name)
    else t.not(reader.read(fallback), invalid, name)
    t.match(settingsList(), `${name} (`)
  }
})
