import { execFileSync, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createPostgresApiKeys } from '../../../src/keys/postgres-api-keys.ts'
import { keyIdBytes, keySecretBytes, mintKey } from '../../../src/keys/rules/api-key.ts'
import type { Pool } from '../../../src/store/postgres/postgres.ts'
import { createDatabase } from '../../support/database.ts'
import { models, subscriptions } from '../../support/gateway.ts'
import { createPool, createRecord } from '../../support/key-store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { ownSettings, runTollgate } from '../../support/tollgate.ts'
import type { CheckLoad, CheckLoadResult } from './check-load.ts'

const invented = 10_000
/** Rounds alternate between quiet and flooded, so that other load on the machine affects both. */
const rounds = 3
const warmSeconds = 2
const seconds = 4
const honestPerSecond = 500
/** Valid keys per second that have not been used before. */
const coldPerSecond = 20
/**
 * Unknown keys in full batches would be 20 queries a second; batches that are not full wait 5 ms.
 */
const maxQueriesPerSecond = 250
/**
 * The factor by which a flood may increase the p99 of known keys, as the median of the rounds, if
 * the service has its own core. Two would be desirable; on shared machines it is 4 to 5.
 */
const maxSlower = 10

/** A separate process of the service with its own database. */
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

/** The number of transactions of the database so far; each lookup is one. */
async function transactions(sql: Pool): Promise<number> {
  // Postgres publishes the statistics of a connection within a second.
  await delay(1_200)
  const [row] = await sql<{ total: number }[]>`
    select xact_commit::int as total from pg_stat_database where datname = current_database()`
  return row?.total ?? 0
}

/** User and system time of a process in microseconds; proc(5) counts ticks of 10 ms. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

/** Gives the service the first core, and the load and the database the others. */
function separate(service: number, sql: readonly number[]): boolean {
  const cores = cpus().length
  if (cores < 2) return false
  try {
    const pin = (cpus: string, pid: number) => execFileSync('taskset', ['-acp', cpus, `${pid}`])
    pin('0', service)
    for (const pid of [process.pid, ...sql]) pin(`1-${cores - 1}`, pid)
    return true
  } catch {
    return false
  }
}

/** The server process of a connection and all its children. */
async function processesOf(sql: Pool): Promise<readonly number[]> {
  const [row] = await sql`select pg_backend_pid() as pid`
  const parentOf = (pid: number | string) =>
    Number(
      readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /, '')
        .split(' ')[1],
    )
  const server = parentOf(row?.pid)
  const children = readFileSync(`/proc/${server}/task/${server}/children`, 'latin1')
  return [server, ...children.trim().split(' ').map(Number)]
}

function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

function show({ rate, p50, p99, most, statuses, leftOut }: CheckLoadResult): string {
  const figures = [p50, p99, most].map((ms) => ms.toFixed(1)).join(' / ')
  const out = leftOut > 0 ? `, ${leftOut} left out` : ''
  return `${rate} a second, p50 / p99 / most ${figures} ms, ${JSON.stringify(statuses)}${out}`
}

for (const sources of [1, 1_000]) {
  t.test(`unknown keys from ${sources} addresses`, { timeout: 240_000 }, async (t) => {
    const { sql, service, port } = await startService(t)
    const warm = await mint(sql, 200)
    const perPhase = coldPerSecond * (warmSeconds + seconds)
    const cold = await mint(sql, 2 * rounds * perPhase)
    const times = { warmSeconds, seconds }
    let taken = 0
    const honest = () => {
      const fresh = cold.slice(taken * perPhase, (taken + 1) * perPhase)
      taken += 1
      return [
        run(t, { port, perSecond: honestPerSecond, ...times, keys: warm, sources: 50 }),
        run(t, { port, perSecond: coldPerSecond, ...times, keys: fresh, sources: 50 }),
      ]
    }

    const apart = separate(service.pid, await processesOf(sql))
    t.comment(apart ? 'the service has the first core' : 'all share the cores')
    await run(t, { port, perSecond: 2_000, seconds: 3, keys: warm, sources: 50 })

    const names = ['known keys', 'keys that are not cached']
    const slower: [number[], number[]] = [[], []]
    for (let round = 0; round < rounds; round += 1) {
      const quiet = await Promise.all(honest())
      const cpuBegin = cpuOf(service.pid)
      const begin = await transactions(sql)
      const [flood, ...flooded] = await Promise.all([
        run(t, { port, perSecond: invented, ...times, keys: [], sources }),
        ...honest(),
      ])
      const lastSeconds = warmSeconds + seconds
      const perSecond = Math.round(((await transactions(sql)) - begin) / lastSeconds)
      const all = [flood, ...flooded].reduce((sum, { rate }) => sum + rate, 0)
      const cpu = (cpuOf(service.pid) - cpuBegin) / (lastSeconds * all)
      for (const [i, name] of names.entries()) {
        const [before, during] = [quiet[i] as CheckLoadResult, flooded[i] as CheckLoadResult]
        t.comment(`${name}, quiet: ${show(before)}`)
        t.comment(`${name}, flooded: ${show(during)}`)
        // If the load was paused for half of the time, there is nothing to compare.
        const isMeasured = during.leftOut * 2 < during.rate * seconds
        if (isMeasured) slower[i as 0 | 1].push(during.p99 / before.p99)
        for (const { statuses } of [before, during]) {
          t.strictSame(Object.keys(statuses), ['200'], 'no valid key is refused')
        }
      }
      t.comment(`invented: ${show(flood)}`)
      t.comment(`${cpu.toFixed(0)} µs of CPU for each, ${perSecond} transactions a second`)
      t.ok(perSecond < maxQueriesPerSecond, `${perSecond} transactions a second`)
      t.notOk(flood.statuses[200])
    }
    const medians = slower.map(median)
    for (const [i, name] of names.entries()) {
      t.comment(`${name}: p99 ${medians[i]?.toFixed(1)} times as long, in the median`)
    }
    const known = medians[0]
    if (!apart || known === undefined)
      t.pass('p99', { skip: 'the machine is too busy to measure a flood' })
    else t.ok(known <= maxSlower, 'known keys are answered about as fast as before')
    const errors = service.output().match(/.*"level":50.*/g) ?? []
    // Checks without Envoy have no lines.
    const unexpected = errors.filter((line) => !line.includes('"problem":"silent"'))
    t.strictSame(unexpected, [], 'no internal error')
  })
}
