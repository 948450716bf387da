import { execFileSync, spawn } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
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

test('a line never continues a torn one, of whichever process', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  writeFileSync(path, '{"torn')
  const file = openAuditFile(path)
  t.teardown(() => file.close(1_000))
  t.equal(await file.write('{"n":1}\n'), true)
  appendFileSync(path, '{"torn')
  t.equal(await file.write('{"n":2}\n'), true)
  t.equal(await file.write('{"n":3}\n'), true)
  t.equal(readFileSync(path, 'utf8'), '{"torn\n{"n":1}\n{"torn\n{"n":2}\n{"n":3}\n')
})

test('a line that another process is writing is not a torn one', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  writeFileSync(path, '{"n":1')
  const file = openAuditFile(path)
  t.teardown(() => file.close(1_000))
  const written = file.write('{"n":2}\n')
  for (let i = 0; i < 20; i += 1) {
    await delay(2)
    appendFileSync(path, '0')
  }
  appendFileSync(path, '}\n')
  t.equal(await written, true)
  t.equal(readFileSync(path, 'utf8'), `{"n":1${'0'.repeat(20)}}\n{"n":2}\n`)
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

test('lines for a file that hangs are forgotten after two seconds', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  // Without a reader, opening it does not end.
  execFileSync('mkfifo', [path])
  const file = openAuditFile(path)
  const promises = () => queryObjects(Promise, { format: 'count' })
  const before = promises()
  const written = await Promise.all(Array.from({ length: 5_000 }, () => file.write('lost\n')))
  const after = promises()
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  await file.close(1_000)
  closeSync(reader)
  t.strictSame([...new Set(written)], [false])
  t.ok(after - before < 1_000, `${before} promises before, ${after} after`)
})

test('a line that is written late is not lost', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const file = openAuditFile(path)
  const buffer = Buffer.alloc(65_536)
  let bytes = 0
  const read = () => {
    try {
      bytes += readSync(reader, buffer)
    } catch {
      // It is empty.
    }
    return bytes
  }
  const lost: string[] = []
  const write = (line: string) => file.write(`${line}\n`, () => lost.push(line))
  // More than a pipe holds, and what is read of it meanwhile.
  const long = 'x'.repeat(300_000)
  const written = write(long)
  await poll(() => read() > 0, 'it is being written')
  t.strictSame(await Promise.all([written, write('waiting')]), [false, false])
  t.strictSame(lost, ['waiting'])
  await poll(() => read() > long.length, 'all of it is written')
  await file.close(1_000)
  closeSync(reader)
  t.strictSame(lost, ['waiting'])
})

test('on standard output entries do not mix with the lines of the log', async (t) => {
  const [log, file] = ['runtime/log', 'audit/file'].map(
    (name) => new URL(`../../src/${name}.ts`, import.meta.url),
  )
  const entries = 60
  const script = `
    const { createLog } = await import('${log}')
    const { openAuditSink } = await import('${file}')
    const { setTimeout: delay } = await import('node:timers/promises')
    const log = createLog('info')
    const sink = openAuditSink('stdout', log)
    const written = []
    for (let i = 0; i < ${entries}; i += 1) {
      for (let line = 0; line < 10; line += 1) log.info({ code: 'long' }, 'x'.repeat(3_000))
      await delay(1)
      written.push(sink.write(JSON.stringify({ kind: 'audit', i }) + '\\n'))
    }
    console.error((await Promise.all(written)).filter(Boolean).length)`
  // A reader that is slower than they are written, at a pipe: Node connects its children by sockets.
  const slowly = `
    for await (const chunk of process.stdin) {
      process.stdout.write(chunk)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }`
  const run = '"$0" --input-type=module -e "$1" | "$0" --input-type=module -e "$2"'
  const child = spawn('/bin/sh', ['-c', run, process.execPath, script, slowly], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  t.equal(errors, `${entries}\n`, 'all were written')
  const lines = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.strictSame(
    lines.filter(({ kind }) => kind === 'audit').map(({ i }) => i),
    Array.from({ length: entries }, (_, i) => i),
  )
})
