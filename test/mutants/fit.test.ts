import { existsSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { allMutants } from './mutants.ts'

test('every mutant fits the sources', async (t) => {
  for (const { file, find, tests } of allMutants) {
    const source = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    t.equal(
      source.split(find).length,
      2,
      `test/mutants/mutants.ts quotes ${file}: ${find.slice(0, 60)}`,
    )
    for (const each of tests)
      t.ok(existsSync(new URL(`../${each}`, import.meta.url)), `${file}: test/${each} exists`)
  }
})
