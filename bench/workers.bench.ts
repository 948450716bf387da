/**
 * `node bench/workers.bench.ts`: what a second worker costs: CPU of all processes of the service for a
 * Check and the entry of its answer, with 1 worker and with 2 in turn. Two connections ask in either
 * case, as two threads of Envoy, each at an address of its own where there are two. `PAIRS=5`.
 */

import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PACKAGE_ROOT } from '../src/package-root.ts'
import { startEmbeddedPostgres } from '../src/store/postgres/embedded-postgres.ts'
import { freePorts } from '../test/support/free-ports.ts'
import { median } from './measure.ts'
import type { WorkersLoad, WorkersLoadResult } from './workers-load.ts'

const pairs = Number(process.env.PAIRS ?? 5)
const calls = Number(process.env.CALLS ?? 30_000)
const keyCount = 64
const tickMs = 10

const resources = `
apiVersion: tollgate.dev/v1alpha1
kind: ModelRef
metadata: { name: m0, namespace: llm }
spec:
  modelRef: { kind: LLMInferenceService, name: m0 }
  backendUrl: http://127.0.0.1:9
  modelIds: [m0]
---
apiVersion: tollgate.dev/v1alpha1
kind: AccessPolicy
metadata: { name: team, namespace: models-as-a-service }
spec:
  modelRefs: [{ name: m0, namespace: llm }]
  subjects: { groups: [{ name: team }] }
---
apiVersion: tollgate.dev/v1alpha1
kind: Subscription
metadata: { name: team, namespace: models-as-a-service }
spec:
  owner: { groups: [{ name: team }] }
  modelRefs:
    - { name: m0, namespace: llm, tokenRateLimits: [{ limit: 900000000, window: 1m }, { limit: 900000000, window: 24h }] }
`

const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-workers-'))
mkdirSync(join(folder, 'resources'))
writeFileSync(join(folder, 'resources', 'all.yaml'), resources)
const users = Array.from({ length: keyCount }, (_, i) => `user-${i}`)
writeFileSync(
  join(folder, 'tokens.csv'),
  users.map((user, i) => `token-${user},${user},${i},team\n`).join(''),
)
const postgres = await startEmbeddedPostgres({ directory: join(folder, 'postgres'), log() {} })
const keys: string[] = []

interface Service {
  readonly process: ChildProcess
  readonly ports: readonly number[]
}

async function start(workers: number): Promise<Service> {
  const [api, internal, ...ports] = await freePorts(2 + workers)
  const child = spawn(process.execPath, [join(PACKAGE_ROOT, 'src/cli/main.ts'), 'serve'], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      WORKERS: String(workers),
      ...(process.env.COUNTER_FLUSH_MS && { COUNTER_FLUSH_MS: process.env.COUNTER_FLUSH_MS }),
      API_ADDRESS: `127.0.0.1:${api}`,
      INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
      GRPC_ADDRESS: ports.map((port) => `127.0.0.1:${port}`).join(','),
      METRICS_ADDRESS: 'off',
      DATABASE_URL: postgres.url,
      DATA_DIR: join(folder, 'data'),
      RESOURCES: `file:${join(folder, 'resources')}`,
      TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
      // Answers are told of once and counted once, with the ids that cost something.
      USAGE_JOURNAL: join(folder, 'usage.jsonl'),
      API_RATE_LIMIT: 'off',
      AUDIT_LOG: 'off',
      LOG_LEVEL: 'silent',
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  for (;;) {
    if (child.exitCode !== null) throw new Error('the service has ended')
    const ready = await fetch(`http://127.0.0.1:${internal}/readyz`).catch(() => undefined)
    if (ready?.status === 200) break
    await delay(50)
  }
  for (let i = keys.length; i < keyCount; i += 1) {
    const answer = await fetch(`http://127.0.0.1:${api}/v1/api-keys`, {
      method: 'POST',
      headers: { authorization: `Bearer token-${users[i]}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'bench', subscription: 'team' }),
    })
    keys.push(((await answer.json()) as { key: string }).key)
  }
  return { process: child, ports }
}

/** The process and those that it has started. */
function processesOf(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(/\s+/),
  )
  return [pid, ...children.filter(Boolean).map(Number)]
}

function cpuMs(pid: number): number {
  const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * tickMs
}

function residentMiB(pid: number): number {
  const [, kibibytes = '0'] =
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) / 1_024
}

async function load({ ports }: Service, each: number, atOnce: number): Promise<void> {
  const loads = [0, 1].map(async (i) => {
    const child = fork(new URL('./workers-load.ts', import.meta.url))
    const port = ports[i % ports.length] as number
    child.send({ port, keys, users, calls: each, atOnce } satisfies WorkersLoad)
    const [{ failures }] = (await once(child, 'message')) as [WorkersLoadResult]
    if (failures > 0) throw new Error(`${failures} Checks were not allowed`)
    if (child.exitCode === null) await once(child, 'exit')
  })
  await Promise.all(loads)
}

interface Seen {
  readonly micros: number
  readonly perSecond: number
  readonly parentMicros: number
  readonly residentMiB: readonly number[]
}

async function measure(workers: number): Promise<Seen> {
  const service = await start(workers)
  const pid = service.process.pid as number
  await load(service, calls / 4, 16)
  const all = processesOf(pid)
  const cpu = () => all.map(cpuMs)
  const before = cpu()
  const beganAt = performance.now()
  await load(service, calls / 2, 16)
  const seconds = (performance.now() - beganAt) / 1_000
  const spent = cpu().map((ms, i) => ms - (before[i] as number))
  const resident = all.map(residentMiB)
  service.process.kill('SIGTERM')
  await once(service.process, 'exit')
  const sum = spent.reduce((a, b) => a + b, 0)
  return {
    micros: (1_000 * sum) / calls,
    perSecond: calls / seconds,
    parentMicros: (1_000 * (spent[0] as number)) / calls,
    residentMiB: resident,
  }
}

const seen: Record<1 | 2, Seen[]> = { 1: [], 2: [] }
const more: number[] = []
for (let pair = 0; pair < pairs; pair += 1) {
  for (const workers of pair % 2 === 0 ? ([1, 2] as const) : ([2, 1] as const)) {
    seen[workers].push(await measure(workers))
  }
  const [one, two] = [seen[1].at(-1) as Seen, seen[2].at(-1) as Seen]
  more.push(100 * (two.micros / one.micros - 1))
  console.log(
    `pair ${pair + 1}: ${one.micros.toFixed(1)} / ${two.micros.toFixed(1)} µs, ${one.perSecond.toFixed(0)} / ${two.perSecond.toFixed(0)} a second`,
  )
}
await postgres.stop()
rmSync(folder, { recursive: true, force: true })

const of = (workers: 1 | 2, read: (each: Seen) => number): string =>
  median(seen[workers].map(read)).toFixed(1)
const rss = (workers: 1 | 2): string =>
  (seen[workers].at(-1) as Seen).residentMiB.map((each) => each.toFixed(0)).join(' + ')
const spread = [...more].sort((a, b) => a - b)
console.log(`
CPU of a Check and its entry, 1 / 2 workers, medians of ${pairs} pairs: ${of(1, (each) => each.micros)} / ${of(2, (each) => each.micros)} µs
  the difference in each pair: ${median(more).toFixed(0)} % (${spread[0]?.toFixed(0)} to ${spread.at(-1)?.toFixed(0)})
  of the parent alone, 2 workers: ${of(2, (each) => each.parentMicros)} µs
a second: ${of(1, (each) => each.perSecond)} / ${of(2, (each) => each.perSecond)}
resident: ${rss(1)} / ${rss(2)} MiB`)
