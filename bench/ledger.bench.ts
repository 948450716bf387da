/**
 * What reading the usage ledger costs the database among ten million rows (`ROWS`) of a year, of 2,000 users
 * in 100 organizations: `node bench/ledger.bench.ts`, with an empty database in DATABASE_URL or an
 * embedded one. And what feeding it costs the process, for each response.
 */

import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbeddedPostgres } from '../dev/postgres/embedded-postgres.ts'
import { openJournalFolder } from '../src/journal/journal-folder.ts'
import { migrate } from '../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../src/store/postgres/postgres.ts'
import { createLedgerFeed } from '../src/usage/ledger/feed.ts'
import { sourceNames } from '../src/usage/ledger/journal-files.ts'
import { createUsageLedger } from '../src/usage/ledger/postgres/ledger.ts'
import { explainUsage, fillLedger, heaviest } from '../test/support/ledger-rows.ts'
import { scriptLine } from '../test/support/line-of.ts'
import { cpuMicros, type Figure, median } from './measure.ts'

const rows = Number(process.env.ROWS ?? 10_000_000)
const rounds = 20
const linesPerStep = 5_000
const steps = 40
/** Nothing of it need survive a crash. Reading is not affected. */
const forFilling = {
  fsync: 'off',
  synchronous_commit: 'off',
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_wal_size: '4GB',
  maintenance_work_mem: '256MB',
}

export async function benchLedger(): Promise<readonly Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const url = process.env.DATABASE_URL
  const embedded =
    url === undefined
      ? await startEmbeddedPostgres({ directory, log() {}, settings: forFilling })
      : null
  const sql = openPool({ url: url ?? embedded?.url ?? '', connections: 1 })
  try {
    await migrate(sql)
    const begin = performance.now()
    await fillLedger(sql, rows, { users: 2_000, organizations: 100 })
    console.log(`filled in ${((performance.now() - begin) / 1_000).toFixed(0)} s`)
    return [...(await measure(sql)), await feedFigure(sql, directory)]
  } finally {
    await sql.end()
    await embedded?.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function measure(sql: Pool): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  for (const [name, query] of Object.entries(heaviest)) {
    const times: number[] = []
    for (let i = 0; i < rounds; i += 1) times.push((await explainUsage(sql, query)).ms)
    const [first = Number.NaN] = times
    const cpu = await cpuOf(sql, async () => void (await explainUsage(sql, query)))
    const value = `first ${first.toFixed(1)} ms, p50 ${median(times).toFixed(1)} ms, CPU ${cpu} ms`
    figures.push({ name: `${name} among ${rows.toLocaleString('en')} rows`, value })
  }
  return figures
}

/**
 * Milliseconds of CPU that Postgres on this Linux takes for `work` in one process, the mean of ten. Other work
 * of the machine adds to the other figures.
 */
async function cpuOf(sql: Pool, work: () => Promise<void>): Promise<string> {
  const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  const stat = `/proc/${backend?.pid}/stat`
  if (process.env.DATABASE_URL !== undefined || !existsSync(stat)) return 'unknown'
  // Of the fields after the name, in hundredths of a second: user and system time.
  const read = () => {
    const [user, system] = readFileSync(stat, 'utf8').split(') ')[1]?.split(' ').slice(11, 13) ?? []
    return 10 * (Number(user) + Number(system))
  }
  await sql`set max_parallel_workers_per_gather = 0`
  const begin = read()
  for (let i = 0; i < 10; i += 1) await work()
  await sql`reset max_parallel_workers_per_gather`
  return ((read() - begin) / 10).toFixed(1)
}

/**
 * A second of a journal at 5,000 lines, of 1,000 users of 10 models: read, summed, and added to the ledger.
 * CPU of this process, not of the database.
 */
async function feedFigure(sql: Pool, directory: string): Promise<Figure> {
  const path = join(directory, 'usage.jsonl')
  const lines = Array.from({ length: linesPerStep }, (_, i) =>
    scriptLine({
      ...{ id: `274679e7-7e02-4a9e-b3f9-d869ae30${1_000 + i}`, bytes: 1_234, ms: 38 },
      ...{ model: `llm/model-${i % 10}`, subscription: 'premium', user: `user-${i % 1_000}` },
      ...{ key: `0f8fad5b-d9cb-469f-a165-${i % 1_000}` },
      payer: 'organization=acme&cost_center=42&rate=0.000002',
      reported: { prompt_tokens: 7, completion_tokens: 10, total_tokens: 17 },
    }),
  ).join('')
  const feed = createLedgerFeed({
    ...{ folder: openJournalFolder(directory), names: sourceNames(path), journal: 'bench' },
    ...{ ledger: createUsageLedger(sql), unusableUsage: 'allow', onGap() {} },
    ...{ clock: Date.now, monotonic: () => performance.now() },
  })
  const times: number[] = []
  for (let i = -steps; i < steps; i += 1) {
    appendFileSync(path, lines)
    const begin = process.cpuUsage()
    await feed.step()
    // The first half is the warm-up.
    if (i >= 0) times.push(cpuMicros(begin) / linesPerStep)
  }
  feed.reset()
  return {
    name: 'a response, from its line in the journal to the ledger',
    value: `${median(times).toFixed(1)} µs CPU, at least ${Math.min(...times).toFixed(1)}`,
  }
}

if (import.meta.main) {
  for (const { name, value } of await benchLedger()) console.log(`${name}  ${value}`)
}
