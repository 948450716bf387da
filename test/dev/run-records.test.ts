import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { reap, record } from '../../dev/run-records.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('stops only the processes that a killed start left behind', async (t) => {
  const folder = temporaryFolder(t)
  const sleeps = ['left', 'ended', 'stranger'].map(() => spawn('sleep', ['600']))
  t.teardown(() => {
    for (const sleep of sleeps) sleep.kill('SIGKILL')
  })
  const [left, ended, stranger] = sleeps
  record(folder, 'left', left?.pid ?? 0)
  const forget = record(folder, 'ended', ended?.pid ?? 0)
  forget()
  // Another process now has its number.
  const note = JSON.stringify({ pid: stranger?.pid, started: 'before' })
  writeFileSync(join(folder, 'stranger.json'), note)
  writeFileSync(join(folder, 'torn.json'), '{"pid":')
  const log: string[] = []
  const isOver = once(left as NonNullable<typeof left>, 'exit')
  await reap(folder, (line) => log.push(line))
  t.strictSame(log, [`Stopping left (process ${left?.pid}), left by an earlier run`])
  t.strictSame(await isOver, [null, 'SIGTERM'])
  t.strictSame(readdirSync(folder), [])
  t.equal(stranger?.exitCode ?? stranger?.signalCode, null)
})
