import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { keyIdBytes, keySecretBytes, mintKey } from '../../src/core/api-key.ts'
import { createPostgresApiKeys } from '../../src/store/api-keys/postgres-api-keys.ts'
import type { Pool } from '../../src/store/postgres/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { models, subscriptions } from '../support/gateway.ts'
import { createPool, createRecord } from '../support/key-store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../support/tollgate.ts'
import type { CheckLoad, CheckLoadResult } from './check-load.ts'

const invented = 10_000
const seconds = 10
const honestPerSecond = 500
/** Honest keys that nobody has asked for, as many each second. */
const coldPerSecond = 20
/** Full queries for all that is invented would be 20 a second; those that are not wait 5 ms. */
const mostQueriesPerSecond = 250

/** A service process of its own on a database of its own. */
async function startService(t: Test) {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'resources'))
  const documents = [...models('http://127.0.0.1:1'), ...subscriptions({ plenty: 1_000_000_000 })]
  const yaml = documents.map((document) => JSON.stringify(document)).join('\n---\n')
  writeFileSync(join(folder, 'resources', 'all.yaml'), yaml)
  const url = await createDatabase(t)
  const settings = await ownSettings(join(folder, 'data'))
  const service = runTollgate(t, ['serve'], {
    ...settings,
    DATABASE_URL: url,
    RESOURCES: `file:${join(folder, 'resources')}`,
  })
  await service.until('"msg":"ready"')
  const sql = await createPool(t, url)
  // The client learns the types of arrays with its first query.
  await sql`select 1`
  return { sql, service, port: Number(settings.GRPC_ADDRESS?.split(':')[1]) }
}

async function mint(sql: Pool, count: number): Promise<readonly string[]> {
  const table = createPostgresApiKeys(sql)
  const minted: string[] = []
  for (let i = 0; i < count; i += 1) {
    const { key, hash } = mintKey('tg', randomBytes(keyIdBytes), randomBytes(keySecretBytes))
    const owner = { user: `user ${i}`, groups: ['team'], subscription: 'plenty' }
    await table.insert(createRecord({ hash, expiresAt: null, ...owner }))
    minted.push(key)
  }
  return minted
}

async function run(t: Test, load: CheckLoad): Promise<CheckLoadResult> {
  const child = fork(new URL('./check-load.ts', import.meta.url))
  t.teardown(() => child.kill('SIGKILL'))
  child.send(load)
  const [result] = (await Promise.race([once(child, 'message'), once(child, 'exit')])) as [unknown]
  if (typeof result !== 'object' || result === null) throw new Error(`the load ended: ${result}`)
  return result as CheckLoadResult
}

/** Transactions of the whole database until now: every look-up is one. */
async function transactions(sql: Pool): Promise<number> {
  // What a connection did is told a second later at most.
  await delay(1_200)
  const [row] = await sql<{ total: number }[]>`
    select xact_commit::int as total from pg_stat_database where datname = current_database()`
  return row?.total ?? 0
}

/** User and system time of a process in microseconds, as proc(5) tells it in ticks of 10 ms. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

function show({ rate, p50, p99, most, statuses }: CheckLoadResult): string {
  const figures = [p50, p99, most].map((ms) => ms.toFixed(1)).join(' / ')
  return `${rate} a second, p50 / p99 / most ${figures} ms, ${JSON.stringify(statuses)}`
}

for (const sources of [1, 1_000]) {
  t.test(`invented keys from ${sources} addresses`, { timeout: 120_000 }, async (t) => {
    const { sql, service, port } = await startService(t)
    const warm = await mint(sql, 200)
    const cold = await mint(sql, 2 * coldPerSecond * seconds)
    const half = cold.length / 2
    const honest = (keys: readonly string[], perSecond: number) =>
      run(t, { port, perSecond, seconds, keys, sources: 50 })
    await run(t, { port, perSecond: 200, seconds: 2, keys: warm, sources: 50 })

    const begin = await transactions(sql)
    const before = await Promise.all([
      honest(warm, honestPerSecond),
      honest(cold.slice(0, half), coldPerSecond),
    ])
    const between = await transactions(sql)
    const cpuBegin = cpuOf(service.pid)
    const [flood, ...during] = await Promise.all([
      run(t, { port, perSecond: invented, seconds, keys: [], sources }),
      honest(warm, honestPerSecond),
      honest(cold.slice(half), coldPerSecond),
    ])
    const cpu = (cpuOf(service.pid) - cpuBegin) / (seconds * (invented + honestPerSecond))
    const end = await transactions(sql)

    for (const [i, name] of ['known keys', 'keys not seen yet'].entries()) {
      t.comment(`${name}, before: ${show(before[i] as CheckLoadResult)}`)
      t.comment(`${name}, during: ${show(during[i] as CheckLoadResult)}`)
    }
    t.comment(`invented: ${show(flood)}`)
    const perSecond = Math.round((end - between) / seconds)
    t.comment(`CPU of the service: ${cpu.toFixed(0)} µs for each`)
    t.comment(`transactions a second: ${Math.round((between - begin) / seconds)}, ${perSecond}`)
    for (const { statuses } of [...before, ...during]) {
      t.strictSame(Object.keys(statuses), ['200'], 'no honest key is refused')
    }
    t.ok(perSecond < mostQueriesPerSecond, `${perSecond} transactions a second`)
    t.notOk(flood.statuses[200])
    t.notMatch(service.output(), '"level":50', 'nothing is a fault')
  })
}
