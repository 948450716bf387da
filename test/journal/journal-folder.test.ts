/** What others put into the shared folder in the place of a file. */

import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runUnnamed, skipUnnamedUser } from '../support/unnamed-user.ts'

const name = 'usage.writers'

test('nothing waits at a pipe in the place of a file', async (t) => {
  const path = temporaryFolder(t)
  execFileSync('mkfifo', [join(path, name)])
  // In a process of its own, which would never end.
  const source = join(packageRoot, 'src/journal/journal-folder.ts')
  const script = `
    import { openJournalFolder } from ${JSON.stringify(source)}
    const folder = openJournalFolder(${JSON.stringify(path)})
    const messageOf = (act) => { try { act(); return 'none' } catch ({ message }) { return message } }
    const acts = [() => folder.readText('${name}'), () => folder.open('${name}'), () => folder.appendText('${name}', 'x')]
    console.log(JSON.stringify(acts.map(messageOf)))`
  const { stdout, signal } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', script],
    { timeout: 20_000, encoding: 'utf8' },
  )
  t.equal(signal, null)
  t.match(JSON.parse(stdout), [/is not a file/, /is not a file/, /ENXIO/])
})

test('what is too long for a small file is not read', async (t) => {
  const path = temporaryFolder(t)
  const folder = openJournalFolder(path)
  writeFileSync(join(path, name), 'x\n')
  t.equal(folder.readText(name), 'x\n')
  // With a terabyte of holes it would fill all memory.
  truncateSync(join(path, name), 2 ** 20 + 1)
  t.throws(() => folder.readText(name), /has 1048577 bytes/)
  symlinkSync('/dev/zero', join(path, 'usage.told'))
  t.throws(() => folder.readText('usage.told'), /is not a file/)
  t.equal(folder.readText('usage.name'), '', 'none is an empty one')
})

test('a user without a name gets told what it cannot use', { skip: skipUnnamedUser }, (t) => {
  // Below TMPDIR it could not even see it.
  const folder = mkdtempSync('/tmp/tollgate-test-')
  t.teardown(() => rmSync(folder, { recursive: true }))
  const source = join(packageRoot, 'src/journal/prepare-folder.ts')
  const script = `
    import { findMismatch } from ${JSON.stringify(source)}
    console.log(findMismatch({ folder: ${JSON.stringify(folder)} }, 0o600))`
  const { stdout } = runUnnamed(['--input-type=module', '--eval', script], {})
  t.match(stdout, `user 54321 can't use ${folder}: it belongs to user 0 and group 0`)
  t.end()
})
