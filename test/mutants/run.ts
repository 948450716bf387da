/**
 * `npm run mutants`: puts each fault of mutants.ts into a copy of the sources and runs the tests
 * that must detect it. Exits with status 1 if one survives or no longer fits the sources.
 */

import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'
import { allMutants, type Mutant } from './mutants.ts'

const maxTestMs = 120_000
const left = new Set(['.git', '.data', '.tools', 'node_modules'])

const folder = makeTemporaryFolder()
try {
  for (const name of readdirSync(packageRoot)) {
    if (!left.has(name))
      cpSync(join(packageRoot, name), join(folder.path, name), { recursive: true })
  }
  // With Envoy, without which tests are skipped, and every fault survives.
  for (const name of ['node_modules', '.tools']) {
    symlinkSync(join(packageRoot, name), join(folder.path, name))
  }
  const survivors = allMutants.filter((mutant, i) => {
    const fate = fateOf(mutant)
    console.log(
      `${i + 1}/${allMutants.length} ${fate}: ${mutant.file}: ${mutant.find.split('\n')[0]}`,
    )
    return fate !== 'killed'
  })
  console.log(`${allMutants.length - survivors.length} killed, ${survivors.length} survived`)
  process.exitCode = survivors.length === 0 ? 0 : 1
} finally {
  folder.remove()
}

function fateOf({ file, find, replace, tests }: Mutant): 'killed' | 'survived' | 'does not fit' {
  const path = join(folder.path, 'src', file)
  const source = readFileSync(path, 'utf8')
  if (source.split(find).length !== 2) return 'does not fit'
  // A function, because the text may contain `$`.
  writeFileSync(
    path,
    source.replace(find, () => replace),
  )
  try {
    return tests.some(fails) ? 'killed' : 'survived'
  } finally {
    writeFileSync(path, source)
  }
}

function fails(test: string): boolean {
  const { status } = spawnSync(process.execPath, [join('test', test)], {
    cwd: folder.path,
    stdio: 'ignore',
    timeout: maxTestMs,
  })
  return status !== 0
}
