import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { openHeadFile } from '../../src/journal/head-file.ts'
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
