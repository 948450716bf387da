import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { loadConfig } from '../../src/settings/config.ts'
import type { Context } from '../../src/wiring/context.ts'
import type { Database } from '../../src/wiring/database.ts'
import { openLedger } from '../../src/wiring/ledger.ts'
import { createMigrated } from '../support/key-store.ts'
import { scriptLine } from '../support/line-of.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('an archive that cannot be written is told until it can', async (t) => {
  const pool = await createMigrated(t)
  const folder = temporaryFolder(t)
  const [path, archives] = [join(folder, 'usage.jsonl'), join(folder, 'archives')]
  writeFileSync(`${path}.1795264000000`, scriptLine())
  writeFileSync(archives, 'no folder')
  const stops: Context['stops'] = []
  const config = loadConfig({ DATA_DIR: folder, USAGE_JOURNAL: path, USAGE_ARCHIVE_DIR: archives })
  const context = { config, log: pino({ level: 'silent' }), clock: Date.now, stops }
  const ledger = openLedger(context as unknown as Context, { pool } as Database)
  ledger?.start(() => true)
  t.teardown(async () => {
    for (const each of stops) if ('stop' in each) await each.stop(1_000)
  })
  t.equal(ledger?.stats.archiveFailing, false)
  await poll(() => ledger?.stats.archiveFailing, 'it fails', 20_000)
  rmSync(archives)
  mkdirSync(archives)
  await poll(() => ledger?.stats.archiveFailing === false, 'it is written', 20_000)
})
