/**
 * How long a line takes from its write to its counters, together with Redis, ledger and metrics: `node
 * bench/lines.bench.ts`. Another process writes `RATE` lines a second (3,000) as the gateway's script does, for
 * `SECONDS` (10), while no, few and many Checks read their end. CPU is the time of this process for each line.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { startEmbeddedPostgres } from '../dev/postgres/embedded-postgres.ts'
import { parseJournalLine } from '../src/journal/journal-line.ts'
import { connectRedis } from '../src/ratelimit/redis/connection.ts'
import { hashTags } from '../src/ratelimit/redis/keys.ts'
import { openJournalSums } from '../src/ratelimit/sums/journal-sums.ts'
import { createPostgresSums } from '../src/ratelimit/sums/postgres-sums.ts'
import { createRedisSums } from '../src/ratelimit/sums/redis-sums.ts'
import { migrate } from '../src/store/postgres/migrate.ts'
import { openPool, type Pool } from '../src/store/postgres/postgres.ts'
import { createLedger } from '../src/usage/ledger/ledger.ts'
import { createArchiveHeads, createUsageLedger } from '../src/usage/ledger/postgres/ledger.ts'
import { maintainPartitions } from '../src/usage/ledger/postgres/partitions.ts'
import { lineUses } from '../src/usage/rules/line-charges.ts'
import { nothingReported, tokenCountersOf } from '../src/usage/rules/usage.ts'
import { scriptLine } from '../test/support/line-of.ts'
import { startValkey } from '../test/support/valkey.ts'
import { findValkey } from '../test/support/valkey-binary.ts'
import { createBenchSettle, createBenchTelemetry, createSnapshot } from './fixture.ts'
import { cpuMicros } from './measure.ts'

const perSecond = Number(process.env.RATE ?? 3_000)
const seconds = Number(process.env.SECONDS ?? 10)
const checksPerSecond = (process.env.CHECKS ?? '0,400,3000').split(',').map(Number)
const [users, models, teams] = [1_024, 100, 16]

/** Each line with when it was written, at its own time; without a rest, so that the writer itself is never late. */
function write(path: string): void {
  const file = openSync(path, 'a')
  const sleep = new Int32Array(new SharedArrayBuffer(4))
  const begin = performance.now()
  for (let i = 0, due = begin; due < begin + seconds * 1_000; i += 1) {
    due -= (Math.log(1 - Math.random()) * 1_000) / perSecond
    for (let left = due - performance.now(); left > 0.1; left = due - performance.now()) {
      Atomics.wait(sleep, 0, 0, left)
    }
    const reported = { total_tokens: 40, prompt_tokens: 30, completion_tokens: 10 }
    const id = String(process.hrtime.bigint())
    writeSync(file, scriptLine({ ...asker(i), reported, id, ms: 40, bytes: 700 }))
  }
}

/** Each user asks for one model under one Subscription. */
function asker(i: number) {
  const user = i % users
  return {
    user: `user-${user}`,
    subscription: `team-${user % teams}`,
    model: `llm/m${user % models}`,
  }
}

async function measure(sql: Pool, redisUrl: string, directory: string): Promise<void> {
  const snapshot = createSnapshot(models, teams)
  const telemetry = createBenchTelemetry()
  const connection = connectRedis(redisUrl, () => {})
  await connection.connected(5_000)
  const shared = existsSync('/dev/shm') ? mkdtempSync('/dev/shm/tollgate-bench-') : directory
  const place = { path: join(shared, 'usage.jsonl'), dataDir: directory }
  const onFault = (error: unknown): void => console.error(error)
  const settle = createBenchSettle(telemetry)
  const ledger = createLedger({
    ...{ ...place, archiveFolder: undefined, unusableUsage: 'allow', clock: Date.now },
    ...{ log: pino({ level: 'error' }), ledger: createUsageLedger(sql) },
    ...{
      heads: createArchiveHeads(sql),
      upkeep: (now) => maintainPartitions(sql, now, 400 * 86_400_000),
    },
  })
  let late: number[] = []
  const sums = await openJournalSums({
    ...{ ...place, mode: 0o600 },
    ...{ now: Date.now, monotonic: () => performance.now(), ...hashTags(false) },
    ...{ store: createRedisSums(connection.commands), longSums: createPostgresSums(sql) },
    readText: (text) => parseJournalLine(text, 'allow'),
    countedOf: (line) => lineUses(line, snapshot),
    onLine(line) {
      late.push(Number(process.hrtime.bigint() - BigInt(line.usage.response.id)) / 1e6)
      settle.onLine(line)
    },
    ...{ onDelivered: settle.onDelivered, maxBytes: 16 * 1_048_576, isDone: ledger.isDone },
    askEnvoy: () => Promise.reject(new Error('no Envoy')),
    ...{ flushMs: 5, onLoss: 'allow', onUnavailable() {}, onProblem() {}, onLost() {}, onFault },
  })
  ledger.start(() => sums.isWriter)
  await delay(5_000)
  for (const [round, checks] of [0, ...checksPerSecond].entries()) {
    late = []
    const ending = new AbortController()
    const begun = process.cpuUsage()
    const writer = spawn(process.execPath, [import.meta.filename, place.path], { stdio: 'inherit' })
    void look(checks, ending.signal, (i) => {
      const usage = { ...asker(i), status: 200, bytes: 0, reported: nothingReported }
      void sums.read(tokenCountersOf(usage, snapshot), Date.now())
    })
    await once(writer, 'exit')
    ending.abort()
    await delay(200)
    const micros = cpuMicros() - begun.user - begun.system
    late.sort((a, b) => a - b)
    const at = (part: number): string =>
      (late[Math.floor(late.length * part)] ?? Number.NaN).toFixed(2)
    console.log(
      `${checks} Checks a second${round > 0 ? '' : ' (warm-up)'}: ${late.length} lines, ms p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, p99.9 ${at(0.999)}, most ${late.at(-1)?.toFixed(1)}; ${(micros / late.length).toFixed(1)} µs CPU a line`,
    )
  }
  await sums.stop(1_000)
  await ledger.stop()
  connection.close()
  await telemetry.stop()
  rmSync(shared, { recursive: true, force: true })
}

/** Runs Checks at a rate of their own, independent of the lines. */
async function look(rate: number, signal: AbortSignal, check: (i: number) => void): Promise<void> {
  let due = performance.now()
  for (let i = 0; rate > 0 && !signal.aborted; ) {
    for (; due <= performance.now(); i += 1) {
      check(i)
      due -= (Math.log(1 - Math.random()) * 1_000) / rate
    }
    await delay(1)
  }
}

async function main(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  process.env.VALKEY_PATH = await findValkey(process.env)
  const ends: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })]
  try {
    const postgres = await startEmbeddedPostgres({ directory, log() {}, settings: {} })
    ends.push(postgres.stop)
    const sql = openPool({ url: postgres.url, connections: 4 })
    ends.push(() => sql.end())
    await migrate(sql)
    const valkey = await startValkey({ teardown: (end: () => unknown) => void ends.push(end) })
    await measure(sql, valkey.url, directory)
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

const [, , path] = process.argv
if (path === undefined) await main()
else write(path)
