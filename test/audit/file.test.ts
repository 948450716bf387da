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

test('lines are appended in order, for nobody else to read', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const file = openAuditFile(path)
  const written = await Promise.all(Array.from({ length: 500 }, (_, i) => file.write(`${i}\n`)))
  t.ok(written.every((each) => each))
  t.strictSame(readFileSync(path, 'utf8'), Array.from({ length: 500 }, (_, i) => `${i}\n`).join(''))
  t.equal(statSync(path).mode & 0o777, 0o600)
  await file.close(1_000)
  t.equal(await file.write('late\n'), true, 'a line after the end finds the file again')
  await file.close(1_000)
})

test('a renamed file is opened anew, without a line to write', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const file = openAuditFile(path)
  t.teardown(() => file.close(1_000))
  await file.write('before\n')
  renameSync(path, `${path}.1`)
  await poll(() => existsSync(path), 'it is there again')
  t.equal(statSync(path).mode & 0o777, 0o600)
  await file.write('after\n')
  t.equal(readFileSync(path, 'utf8'), 'after\n')
  t.equal(readFileSync(`${path}.1`, 'utf8'), 'before\n')
  rmSync(path)
  t.equal(await file.write('at once\n'), true, 'the next line does not go to a file that is gone')
  t.equal(readFileSync(path, 'utf8'), 'at once\n')
})

test('a disk that is full loses lines, and says so', { skip: !hasFull }, async (t) => {
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
