/**
 * What reading the usage ledger costs the database among ten million rows (`ROWS`) of a year, of 2,000 users
 * in 100 organizations: `node bench/ledger.bench.ts`, with an empty database in DATABASE_URL or an
 * embedded one. And what feeding it costs the process, for each response.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbeddedPostgres } from '../src/local/postgres/embedded-postgres.ts'
import { readLine } from '../src/ratelimit/journal/line.ts'
import { createUsageSums } from '../src/ratelimit/ledger/sums.ts'
import { migrate } from '../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../src/store/postgres/postgres.ts'
import { explainUsage, fillLedger, heaviest } from '../test/support/ledger-rows.ts'
import { type Figure, microsPerCall } from './measure.ts'

const rows = Number(process.env.ROWS ?? 10_000_000)
const rounds = 20

export async function benchLedger(): Promise<readonly Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const url = process.env.DATABASE_URL
  const embedded = url === undefined ? await startEmbeddedPostgres({ directory, log() {} }) : null
  const sql = openPool({ url: url ?? embedded?.url ?? '', connections: 1 })
  try {
    await migrate(sql)
    await fillLedger(sql, rows, { users: 2_000, organizations: 100 })
    return [...(await measure(sql)), feedFigure()]
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
    times.sort((a, b) => a - b)
    const median = times[rounds / 2] ?? Number.NaN
    const value = `first ${first.toFixed(1)} ms, p50 ${median.toFixed(1)} ms`
    figures.push({ name: `${name} among ${rows.toLocaleString('en')} rows`, value })
  }
  return figures
}

/** From the line to the sum of its row, as 1,000 users of 10 models make them. */
function feedFigure(): Figure {
  const sums = createUsageSums('allow')
  const now = Date.now()
  const lines = Array.from({ length: 10_000 }, (_, i) =>
    JSON.stringify({
      ...{ id: `274679e7-7e02-4a9e-b3f9-d869ae30${i}`, bytes: 1_234, ms: 38, start: `${now}` },
      ...{ status: 200, model: `llm/model-${i % 10}`, subscription: 'premium' },
      ...{ user: `user-${i % 1_000}`, key: `0f8fad5b-d9cb-469f-a165-${i % 1_000}` },
      payer: 'organization=acme&cost_center=42&rate=0.000002',
      reported: { prompt_tokens: 7, completion_tokens: 10, total_tokens: 17 },
    }),
  )
  const micros = microsPerCall((i) => {
    for (const usage of readLine(lines[i % lines.length] ?? '').usages) sums.add(usage, now)
    if (sums.size >= 2_000) sums.take()
  })
  return {
    name: 'a line of the journal, to the sums of the ledger',
    value: `${micros.toFixed(1)} µs CPU`,
  }
}

if (import.meta.main) {
  for (const { name, value } of await benchLedger()) console.log(`${name}  ${value}`)
}
