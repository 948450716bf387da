import { existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'tap'
import { openHeadFile } from '../../src/journal/head-file.ts'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { openJournalFolder } from '../../src/journal/journal-folder.ts'
import { createAndOpenFile, prepareFolder } from '../../src/journal/prepare-folder.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

test('a head file says how often a file was renamed', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const path = join(folder.path, 'usage.head')
  const head = openHeadFile(path)
  t.strictSame(head.read(), { renamed: 0, failed: 0 })
  head.noteRenamed()
  const other = openHeadFile(path)
  t.strictSame(other.read(), { renamed: 1, failed: 0 }, 'its numbers go on')
  const bytes = readFileSync(path)
  t.equal(bytes.length, 64)
  t.equal(bytes.toString('latin1', 0, 5), 'TTOL1')
  t.equal(statSync(path).mode & 0o777, 0o600)
  bytes.writeUInt32LE(3, 16)
  writeFileSync(path, bytes)
  t.strictSame(head.read(), { renamed: 1, failed: 3 }, 'the script counts its failures')
  writeFileSync(path, Buffer.alloc(64, 'x'))
  t.strictSame(openHeadFile(path).read(), { renamed: 0, failed: 0 }, 'what is none is replaced')
  head.close()
  other.close()
})

test('a link in the folder leads to no other file of the service', async (t) => {
  const folder = makeTemporaryFolder()
  t.teardown(() => folder.remove())
  const files = journalFilesOf(join(folder.path, 'shared', 'usage.jsonl'))
  prepareFolder(files, 0o600)
  const [own, missing] = [join(folder.path, 'own'), join(folder.path, 'missing')]
  writeFileSync(own, 'of the service', { mode: 0o600 })
  for (const target of [own, missing]) {
    const link = join(folder.path, 'shared', `to-${target === own ? 'own' : 'nowhere'}`)
    symlinkSync(target, link)
    t.throws(() => openHeadFile(link), { code: 'ELOOP' })
    t.throws(() => prepareFolder({ ...files, head: link }, 0o660), { code: 'ELOOP' })
    t.throws(() => createAndOpenFile(link, 0o660), { code: 'EEXIST' })
    t.throws(() => openJournalFolder(join(folder.path, 'shared')).appendText(basename(link), 'x'), {
      code: 'ELOOP',
    })
    rmSync(link)
    const draft = join(folder.path, 'shared', `told.${process.pid}.tmp`)
    symlinkSync(target, draft)
    openJournalFolder(join(folder.path, 'shared')).replaceText('told', 'x')
  }
  t.equal(readFileSync(own, 'utf8'), 'of the service')
  t.equal(statSync(own).mode & 0o777, 0o600)
  t.equal(existsSync(missing), false)
})
