import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { stopInOrder } from '../../src/runtime/shutdown.ts'
import { loadConfig } from '../../src/settings/config.ts'
import { openDatabase } from '../../src/wiring/database.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { databaseHome } from '../support/tollgate.ts'

test('an embedded Postgres that ends is started again', async (t) => {
  const config = loadConfig({ DATA_DIR: temporaryFolder(t) })
  const lines: string[] = []
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(line) })
  const { signal } = new AbortController()
  const context = { config, log, stops: [], signal, clock: Date.now, onFault: t.error }
  const { pool } = await openDatabase({
    ...context,
    audit: { note: async () => true, require: async () => {}, lost: 0, isFailing: false },
  })
  const kept = async () => (await pool`select count(*)::int as count from api_keys`)[0]?.count
  t.equal(await kept(), 0)
  const pidFile = join(databaseHome(config.dataDir), 'data', 'postmaster.pid')
  process.kill(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), 'SIGKILL')
  // Its processes may answer for a moment longer than it.
  await poll(() => lines.length > 0, 'its end is noticed', 60_000)
  await poll(async () => (await kept().catch(() => undefined)) === 0, 'it is back', 60_000)
  t.match(lines[0], /"code":"embedded_postgres_ended".*Postgres ended \(SIGKILL\)/)
  t.equal(await stopInOrder(context.stops.reverse(), { log }), true)
  t.notOk(existsSync(pidFile), 'it has stopped')
})
