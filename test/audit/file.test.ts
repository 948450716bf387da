import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { openAuditFile } from '../../src/audit/file.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const hasFull = existsSync('/dev/full')

test('lines are appended in order to a file that only its owner can read', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const file = openAuditFile(path)
  const written = await Promise.all(Array.from({ length: 500 }, (_, i) => file.write(`${i}\n`)))
  t.ok(written.every((each) => each))
  t.strictSame(readFileSync(path, 'utf8'), Array.from({ length: 500 }, (_, i) => `${i}\n`).join(''))
  t.equal(statSync(path).mode & 0o777, 0o600)
  await file.close(1_000)
  t.equal(await file.write('late\n'), true, 'the file is opened again for a line after the end')
  await file.close(1_000)
})

test('a renamed file is replaced at once, without waiting for a line', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const file = openAuditFile(path)
  t.teardown(() => file.close(1_000))
  await file.write('before\n')
  renameSync(path, `${path}.1`)
  await poll(() => existsSync(path), 'the file exists again')
  t.equal(statSync(path).mode & 0o777, 0o600)
  await file.write('after\n')
  t.equal(readFileSync(path, 'utf8'), 'after\n')
  t.equal(readFileSync(`${path}.1`, 'utf8'), 'before\n')
  rmSync(path)
  t.equal(await file.write('at once\n'), true, 'the next line is not written to the deleted file')
  t.equal(readFileSync(path, 'utf8'), 'at once\n')
})

test('a full disk loses lines and is reported', { skip: !hasFull }, async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  symlinkSync('/dev/full', path)
  const file = openAuditFile(path)
  t.teardown(() => file.close(1_000))
  t.strictSame(await Promise.all([file.write('one\n'), file.write('two\n')]), [false, false])
  rmSync(path)
  t.equal(await file.write('three\n'), true)
  t.equal(readFileSync(path, 'utf8'), 'three\n')
})

test('a path that cannot be opened loses lines until it can', async (t) => {
  const folder = join(temporaryFolder(t), 'folder')
  const file = openAuditFile(join(folder, 'audit.jsonl'))
  t.teardown(() => file.close(1_000))
  t.equal(await file.write('lost\n'), false)
  mkdirSync(folder)
  chmodSync(folder, 0o700)
  t.equal(await file.write('kept\n'), true)
})
