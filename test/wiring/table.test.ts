import { existsSync, statfsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { openHeadFile } from '../../src/journal/head-file.ts'
import type { ServingParts } from '../../src/table/process-table.ts'
import type { GrantedRequest } from '../../src/table/table.ts'
import type { Context } from '../../src/wiring/context.ts'
import { createTable } from '../../src/wiring/table.ts'
import { poll } from '../support/poll.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { grantOf } from '../support/table-world.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** A table whose Envoy says that it has two workers as soon as the test lets it. */
async function createWorld(t: Test, config: object = {}, folder = temporaryFolder(t)) {
  openHeadFile(join(folder, 'usage.head')).close()
  let isThere = false
  const envoy = createServer((_, answer) => {
    answer.statusCode = isThere ? 200 : 503
    answer.end(JSON.stringify({ command_line_options: { concurrency: 2 } }))
  })
  await new Promise<void>((settle) => envoy.listen(0, '127.0.0.1', settle))
  t.teardown(() => envoy.close())
  const { port } = envoy.address() as AddressInfo
  const faults: unknown[] = []
  const logged: string[] = []
  const note = ({ code, cause = '' }: { code: string; cause?: string }) =>
    void logged.push(`${code} ${cause}`.trim())
  const context = {
    config: {
      ...{ decisionTable: 'on', usageJournal: join(folder, 'usage.jsonl'), socketMode: 0o600 },
      ...{ envoyAdminAddress: { host: '127.0.0.1', port }, onCounterLoss: 'allow', ...config },
    },
    log: { info: note, warn: note },
    onFault: (error: unknown) => void faults.push(error),
  }
  const state = { isServing: true, isUnreadable: false, isConfirmed: true }
  const table = createTable(context as unknown as Context)
  t.teardown(() => table.stop())
  const start = () =>
    table.start({
      sums: { isWriter: true, stats: { failing: false }, shared: {}, ...state } as never,
      follower: { state: () => 'confirmed', leaseLeftMs: () => (state.isConfirmed ? 1_000 : 0) },
      isServing: () => state.isServing,
    } as unknown as ServingParts)
  return {
    table,
    start,
    state,
    faults,
    logged,
    path: join(folder, 'usage.table'),
    come: () => (isThere = true),
  }
}

test('nothing is published that was decided before there is a table', async (t) => {
  const { table, start, come, path, faults } = await createWorld(t)
  const mark = table.mark
  const grant = { caller: { by: 'key', keyId: 'k' } }
  t.equal(table.admit({ grant, keyHash: 'h' } as GrantedRequest), undefined)
  t.equal(table.hashOf('k'), 'h', 'for its last use')
  table.withdraw(['a'])
  table.withdrawAll()
  start()
  t.equal(existsSync(path), false, 'lanes are as many as Envoy needs')
  const suspended = table.suspend()
  come()
  await poll(() => table.stats()?.isOpen === true, 'it is open')
  const admit = (mark: number) => {
    const asked = {
      ...{ grant: grantOf('ada', []), keyHash: 'h', credential: 'sk-k', path: '/', now: 0, mark },
      ...({ bodyModel: undefined, dialect: 'openai' } as const),
    }
    for (let i = 0; i < 3; i += 1) table.admit(asked)
    return table.stats()?.published
  }
  t.equal(admit(table.mark), 0, 'what is changing is not published')
  const during = table.mark
  await suspended
  table.resume()
  t.equal(admit(mark), 0, 'decided before there was a table')
  t.equal(admit(during), 0, 'decided before the change')
  t.ok((admit(table.mark) ?? 0) > 0)
  t.strictSame(faults, [])
})

test('it is in force only while requests are served and keys are confirmed', async (t) => {
  const { table, start, come, state, faults } = await createWorld(t)
  come()
  start()
  const is = (isOpen: boolean, why: string) => poll(() => table.stats()?.isOpen === isOpen, why)
  await is(true, 'it is open')
  for (const name of ['isServing', 'isConfirmed'] as const) {
    state[name] = false
    await is(false, `closed: ${name}`)
    state[name] = true
    await is(true, `open again: ${name}`)
  }
  table.stop()
  t.equal(table.stats(), undefined)
  t.strictSame(faults, [])
})

test('without it there are no files', async (t) => {
  const { table, start, path } = await createWorld(t, { decisionTable: 'off' })
  writeFileSync(path, 'from before')
  start()
  t.equal(existsSync(path), false)
  t.equal(table.isOn, false)
})

test('a folder without space for it is reported once', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const { start, come, path, faults, logged } = await createWorld(t, {}, disk.path)
  disk.fill()
  disk.free(20_000_000)
  come()
  start()
  await poll(() => logged.length > 0, 'it is logged')
  t.match(logged, [/^table_failing .*usage.table cannot be written .ENOSPC.: free \d+ MB there$/])
  const { bavail, bsize } = statfsSync(disk.path)
  t.ok(bavail * bsize > 19_000_000, 'the space is left for lines')
  disk.free()
  await poll(() => existsSync(path), 'it is tried again', 20_000)
  await poll(() => logged.length > 1, 'the end is logged')
  t.strictSame([logged.length, logged[1], faults], [2, 'table_restored', []])
})
