import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { claim } from '../../dev/claim.ts'
import { commandLine, identify, isRunning } from '../../dev/process-identity.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('one living process holds a claim', async (t) => {
  const file = join(temporaryFolder(t), 'in-use')
  const first = claim(file)
  t.strictSame(claim(file), { heldBy: process.pid })
  if ('release' in first) first.release()
  t.notOk(existsSync(file))
  t.match(claim(file), { release: Function })
})

test('the claim of an ended process is free', async (t) => {
  const folder = temporaryFolder(t)
  for (const left of [
    { pid: process.pid, started: 'in another life' },
    { pid: 2 ** 30, started: '1' },
    'nonsense',
  ]) {
    const file = join(folder, 'in-use')
    writeFileSync(file, JSON.stringify(left))
    const claimed = claim(file)
    t.match(claimed, { release: Function })
    if ('release' in claimed) claimed.release()
  }
})

test('a process is identified by its start time too', async (t) => {
  const us = identify(process.pid)
  t.ok(us && isRunning(us))
  t.notOk(us && isRunning({ ...us, started: 'in another life' }))
  t.equal(identify(2 ** 30), undefined)
  t.match(commandLine(process.pid), process.execPath)
})
