/**
 * `node bench/workers.bench.ts`: what workers cost, in CPU time of all processes of the service for
 * a Check and the entry of its response, warm, without the cost of an idle service. Services with
 * one process, with two workers, and two complete processes with counters of their own run side by
 * side. They are called in turn, over connections like those of Envoy's threads, each to an address
 * of its own if there are two. Calls get cheaper the more of them a process has at once, so two
 * workers with one connection each are compared with one process with one (the same load per
 * process) and with two (the same total load). Two complete processes show what two cores cost by
 * themselves: caches and time slices. `ROUNDS=9`, `CALLS=3000` per connection, `WARM=20000`,
 * `AT_ONCE=16`.
 */

import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { cpuMicrosOf } from '../src/cli/bench/process-costs.ts'
import { packageRoot } from '../src/package-root.ts'
import { startEmbeddedPostgres } from '../src/store/postgres/embedded-postgres.ts'
import { freePorts } from '../test/support/free-ports.ts'
import { median } from './measure.ts'
import type { WorkersLoad, WorkersLoadResult } from './workers-load.ts'

const rounds = Number(process.env.ROUNDS ?? 9)
const calls = Number(process.env.CALLS ?? 3_000)
const warmCalls = Number(process.env.WARM ?? 20_000)
const restMs = 3_000
const atOnce = Number(process.env.AT_ONCE ?? 16)
const keyCount = 64

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
  readonly processes: readonly ChildProcess[]
  readonly ports: readonly number[]
}

async function start(workers: number, name: string): Promise<Service> {
  const [api, internal, ...ports] = await freePorts(2 + workers)
  const child = spawn(process.execPath, [join(packageRoot, 'src/cli/main.ts'), 'serve'], {
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
      DATA_DIR: join(folder, `data-${name}`),
      RESOURCES: `file:${join(folder, 'resources')}`,
      TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
      // Responses are reported and counted once, with their ids, which cost something.
      USAGE_JOURNAL: join(folder, `usage-${name}.jsonl`),
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
  return { processes: [child], ports }
}

/** The process and its children. */
function processesOf(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(/\s+/),
  )
  return [pid, ...children.filter(Boolean).map(Number)]
}

function residentMiB(pid: number): number {
  const [, kibibytes = '0'] =
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) / 1_024
}

const loads: readonly ChildProcess[] = [0, 1].map(() =>
  fork(new URL('./workers-load.ts', import.meta.url)),
)

/** This many calls on each of this many connections. */
async function load({ ports }: Service, connections: number, each: number): Promise<void> {
  const answers = loads.slice(0, connections).map(async (child, i) => {
    const port = ports[i % ports.length] as number
    child.send({ port, keys, users, calls: each, atOnce } satisfies WorkersLoad)
    const [{ failures }] = (await once(child, 'message')) as [WorkersLoadResult]
    if (failures > 0) throw new Error(`${failures} Checks were not allowed`)
  })
  await Promise.all(answers)
}

/** CPU microseconds of the processes of a service, the parent first. */
function cpuOf({ processes }: Service): readonly number[] {
  return processes.flatMap((process) => {
    const [parent = 0, ...workers] = processesOf(process.pid as number)
    const ofWorkers = workers.map(cpuMicrosOf)
    // The parent's figure includes its children.
    return [ofWorkers.reduce((rest, each) => rest - each, cpuMicrosOf(parent)), ...ofWorkers]
  })
}

function spentSince(before: readonly number[], service: Service): readonly number[] {
  return cpuOf(service).map((micros, i) => micros - (before[i] as number))
}

/** What they spend in a second without calls. */
async function atRest(service: Service): Promise<readonly number[]> {
  const before = cpuOf(service)
  await delay(restMs)
  return spentSince(before, service).map((micros) => (micros * 1_000) / restMs)
}

interface Seen {
  readonly micros: number
  readonly perSecond: number
  /** Of the process that owns the counters. */
  readonly parentMicros: number
}

async function measure(
  service: Service,
  rest: readonly number[],
  connections: number,
): Promise<Seen> {
  const count = calls * connections
  const before = cpuOf(service)
  const beganAt = performance.now()
  await load(service, connections, calls)
  // Usage that is sent with the next batches is part of it.
  await delay(100)
  const seconds = (performance.now() - beganAt) / 1_000
  const spent = spentSince(before, service).map((micros, i) => {
    return (micros - seconds * (rest[i] as number)) / count
  })
  const micros = spent.reduce((a, b) => a + b, 0)
  return { micros, perSecond: count / (seconds - 0.1), parentMicros: spent[0] as number }
}

const one = await start(1, 'one')
const two = await start(2, 'two')
const [left, right] = [await start(1, 'left'), await start(1, 'right')]
const pair: Service = {
  processes: [...left.processes, ...right.processes],
  ports: [...left.ports, ...right.ports],
}
const services = [one, two, pair]
const shapes = {
  'one process, one connection': { service: one, connections: 1, seen: [] as Seen[] },
  'one process, two connections': { service: one, connections: 2, seen: [] as Seen[] },
  'two workers, two connections': { service: two, connections: 2, seen: [] as Seen[] },
  'two complete processes, two connections': {
    service: pair,
    connections: 2,
    seen: [] as Seen[],
  },
}
const [single, both, workers, complete] = Object.values(shapes)
// A new worker compiles its code first: each gets as many calls before anything is measured.
await load(one, 2, warmCalls / 2)
await load(two, 2, warmCalls)
await load(pair, 2, warmCalls)
const rests = new Map<Service, readonly number[]>()
for (const service of services) rests.set(service, await atRest(service))
for (let round = 0; round < rounds; round += 1) {
  const order = Object.values(shapes)
  for (const { service, connections, seen } of round % 2 === 0 ? order : order.reverse()) {
    seen.push(await measure(service, rests.get(service) ?? [], connections))
  }
}
const resident = [one, two].map(({ processes }) =>
  processes.flatMap(({ pid = 0 }) => processesOf(pid)).map((pid) => residentMiB(pid).toFixed(0)),
)
for (const child of loads) child.disconnect()
for (const process of services.flatMap(({ processes }) => processes)) {
  process.kill('SIGTERM')
  await once(process, 'exit')
}
await postgres.stop()
rmSync(folder, { recursive: true, force: true })

function show(micros: readonly number[]): string {
  return micros.map((each) => (each / 1_000).toFixed(1)).join(' + ')
}

type Shape = (typeof shapes)[keyof typeof shapes]
const of = ({ seen }: Shape, read: (each: Seen) => number): number => median(seen.map(read))

/** The median of the rounds, with minimum and maximum. */
function beside(more: Shape, less: Shape): string {
  const percents = more.seen
    .map(({ micros }, i) => 100 * (micros / (less.seen[i] as Seen).micros - 1))
    .sort((a, b) => a - b)
  const [least = 0, most = 0] = [percents[0], percents.at(-1)]
  return `${median(percents).toFixed(0)} % (${least.toFixed(0)} to ${most.toFixed(0)})`
}

console.log(`CPU of a Check and its entry, medians of ${rounds} rounds`)
for (const [name, shape] of Object.entries(shapes)) {
  const micros = of(shape, (each) => each.micros).toFixed(1)
  const perSecond = of(shape, (each) => each.perSecond).toFixed(0)
  console.log(`  ${name}: ${micros} µs, ${perSecond} a second`)
}
const parent = of(workers as Shape, (each) => each.parentMicros).toFixed(1)
console.log(`  of it the parent's of two workers: ${parent} µs
two workers beside one process that is asked as much as each: ${beside(workers as Shape, single as Shape)}
beside one that is asked as much as both: ${beside(workers as Shape, both as Shape)}
beside two complete processes: ${beside(workers as Shape, complete as Shape)}
at rest, ms of CPU a second: ${[...rests.values()].map(show).join(' / ')}
resident: ${resident.map((each) => each.join(' + ')).join(' / ')} MiB`)
