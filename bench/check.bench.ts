/**
 * The cost of a Check: first from bytes to bytes, then through the gRPC server over loopback. The load comes from a
 * separate process, so that only the server's CPU time is measured.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
import { trace } from '@opentelemetry/api'
import { type Check, type CheckDeps, createCheck } from '../src/extauthz/check.ts'
import { createLimitEnforcer } from '../src/extauthz/check-limits.ts'
import { traceCheck, traceDecisions, traceKey } from '../src/extauthz/check-spans.ts'
import { createGrpcServer } from '../src/grpc/server.ts'
import { WireWriter } from '../src/grpc/wire.ts'
import { createAuthenticator, createKeyVerifier } from '../src/identity/authenticate.ts'
import { createCachedApiKeys } from '../src/keys/cached-api-keys.ts'
import type { KeyCaps } from '../src/keys/rules/key-caps.ts'
import { pathRules } from '../src/operations/operations.ts'
import type { CounterStore } from '../src/ratelimit/counters.ts'
import { createEstimators } from '../src/ratelimit/rules/estimates/estimators.ts'
import { createTracing, noTracing, type Tracing } from '../src/telemetry/tracing.ts'
import { createTestCounters } from '../test/support/counters.ts'
import { alwaysFresh } from '../test/support/key-table.ts'
import { createBenchTelemetry, createKeys, createSnapshot } from './fixture.ts'
import { bytesPerCall, cpuMicros, type Figure, microsInTurn, microsPerCall } from './measure.ts'

const checkPath = '/envoy.service.auth.v3.Authorization/Check'
const keyCount = 1_024
const models = 100
const teams = 16

/** The input of the load process, and its result. */
export interface Load {
  readonly port: number
  readonly path: string
  /** Base64, used in turn. */
  readonly messages: readonly string[]
  readonly calls: number
  readonly atOnce: number
  /** Instead of `atOnce`: calls started per second. */
  readonly perSecond?: number
  /** Calls that are started before and never end. */
  readonly open?: number
}
export interface LoadResult {
  readonly p50: number
  readonly p99: number
  readonly failures: number
}

/** A Check with cached keys, and requests as Envoy sends them. */
export async function createWarmCheck(
  counters: CounterStore,
  deps: Partial<CheckDeps> = {},
  tracing: Tracing = noTracing,
  caps: KeyCaps = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly check: Check; readonly messages: readonly Buffer[] }> {
  const { keys, table } = createKeys(keyCount, teams, caps)
  const snapshot = createSnapshot(models, teams)
  // No key becomes old: to read it again needs turns of the event loop, which a measurement does not have.
  const cached = createCachedApiKeys(table, {
    freshness: alwaysFresh,
    entries: 10_000,
    monotonic: () => 0,
  })
  const verifyKey = createKeyVerifier(cached, { own: 'tg', accepted: new Set() })
  const check = createCheck({
    authenticate: createAuthenticator({
      key: traceKey(tracing, tracing.waiting('database', verifyKey)),
      token: () => null,
    }),
    snapshot: () => snapshot,
    limits: createLimitEnforcer({ counters: { read: tracing.waiting('redis', counters.read) } }),
    paths: pathRules(),
    clock: Date.now,
    onFault: (error) => {
      throw error
    },
    ...deps,
    ...traceDecisions(tracing, {
      onDecided: deps.onDecided ?? (() => {}),
      onRefused: deps.onRefused ?? (() => {}),
    }),
  })
  const messages = keys.map((key, i) =>
    toCheckRequest(`/llm/m${i % models}/v1/chat/completions`, key, headers),
  )
  for (const message of messages) await check(message)
  return { check: traceCheck(tracing, check), messages }
}

export async function benchCheck(calls = 100_000): Promise<readonly Figure[]> {
  const { check, messages } = await createWarmCheck(createTestCounters())
  const inProcess = microsPerCall((i) => check(messages[i % keyCount] as Buffer), 100_000)
  const garbage = bytesPerCall((i) => check(messages[i % keyCount] as Buffer))
  const withMetrics = await benchWithMetrics()
  const server = await serveCheck(check, messages)
  await server.run({ calls: Math.ceil(calls / 4), atOnce: 64 })
  const busy = await server.run({ calls, atOnce: 64 })
  await server.stop()
  return [
    { name: 'Check, bytes to bytes', value: `${inProcess.toFixed(2)} µs CPU` },
    { name: '  its garbage', value: `${garbage.toFixed(0)} bytes` },
    { name: '  with its metrics counted', value: `${withMetrics.toFixed(2)} µs CPU` },
    { name: '  more with three caps', value: `${(await benchCaps()).toFixed(2)} µs` },
    ...(await benchNamedLimits()),
    ...(await benchTracing()),
    { name: 'Check over gRPC, 64 at once', value: `${busy.microsPerCall.toFixed(1)} µs CPU` },
    {
      name: '  its latency p50 / p99, same machine',
      value: `${busy.p50.toFixed(2)} / ${busy.p99.toFixed(2)} ms`,
    },
    { name: '  event loop late, p99', value: `${busy.lateMs.toFixed(2)} ms` },
    { name: '  failed', value: `${busy.failures} of ${calls}` },
  ]
}

/** What models, limits and addresses of the key add, measured beside the same without them. */
async function benchCaps(): Promise<number> {
  const all = Array.from({ length: models }, (_, i) => ({ namespace: 'llm', name: `m${i}` }))
  const caps = {
    models: all,
    tokenRateLimits: [{ limit: 1_000_000_000, window: '1m' }],
    allowedAddresses: ['2001:db8::/32', '192.0.2.0/24'],
  }
  const worldOf = (each: KeyCaps) => createWarmCheck(createTestCounters(), {}, noTracing, each)
  const [, more] = compare(await worldOf({}), await worldOf(caps))
  return more
}

/** A Check of a model with a price, whose response has a line; and what five limits by name add to it. */
export async function benchNamedLimits(): Promise<readonly Figure[]> {
  const limit = 1_000_000_000
  const limits = { billingRate: { perToken: '0.000002' } }
  const named = {
    limits,
    model: { limits: [{ name: 'all-minute', per: 'model', of: 'tokens', limit, window: '1m' }] },
    subscription: {
      limits: [
        { name: 'team-month', per: 'group', of: 'cost', limit: '500', window: 'month' },
        { name: 'person-day', of: 'cost', limit: '50', window: 'day' },
        { name: 'output-hour', of: 'output', limit, window: '1h' },
        { name: 'person-week', of: 'tokens', limit, window: 'week' },
      ],
    },
  }
  const worldOf = (more: object) => {
    const snapshot = createSnapshot(models, teams, more)
    const sent = { 'x-request-id': crypto.randomUUID(), 'content-length': '4000' }
    const counters = createTestCounters()
    // As the service has it: under a limit on cost a response without usage is charged by estimate.
    const charging = { estimators: createEstimators(), isAlways: false }
    const deps = { snapshot: () => snapshot, limits: createLimitEnforcer({ counters, charging }) }
    return createWarmCheck(counters, deps, noTracing, {}, sent)
  }
  const figures: Figure[] = []
  // What is known of few keys stays in the processor's caches.
  for (const keys of [16, keyCount]) {
    const [plain, more] = compare(await worldOf({ limits }), await worldOf(named), keys)
    const name = `Check of a priced model, with a line, ${keys} keys`
    figures.push({ name, value: `${plain.toFixed(2)} µs` })
    figures.push({ name: '  more with five limits by name', value: `${more.toFixed(2)} µs` })
  }
  return figures
}

type World = Awaited<ReturnType<typeof createWarmCheck>>

/** Microseconds of the first, and of the second in addition, alternating among this many keys. */
function compare(a: World, b: World, keys = keyCount): readonly [first: number, more: number] {
  const [first, other] = [a, b].map(
    ({ check, messages }) =>
      (i: number) =>
        check(messages[i % keys] as Buffer),
  ) as [(i: number) => unknown, (i: number) => unknown]
  // What is measured second is slower by itself.
  const [firstFirst = 0, otherSecond = 0] = microsInTurn([first, other])
  const [otherFirst = 0, firstSecond = 0] = microsInTurn([other, first])
  const [one, two] = [(firstFirst + firstSecond) / 2, (otherFirst + otherSecond) / 2]
  return [one, two - one]
}

/** A Check with metrics of its decisions, calls and durations. */
async function benchWithMetrics(): Promise<number> {
  const telemetry = createBenchTelemetry()
  const { onDecided } = telemetry
  const { check, messages } = await createWarmCheck(createTestCounters(), { onDecided })
  const timed = telemetry.timed(check)
  const micros = microsPerCall((i) => timed(messages[i % keyCount] as Buffer), 100_000)
  await telemetry.stop()
  return micros
}

/**
 * What it costs to be ready to trace: the same Check with and without it, alternating, so that
 * other work of the machine affects both.
 */
export async function benchTracing(): Promise<readonly Figure[]> {
  const ids = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'
  const plain = await createWarmCheck(createTestCounters())
  const traced = await createWarmCheck(
    createTestCounters(),
    {},
    createTracing(trace.getTracer('bench')),
  )
  const cost = async ({ check, messages }: typeof plain, traceparent?: string): Promise<number> => {
    // Keys are read again every thirty seconds, which needs a turn of the event loop.
    await setImmediate()
    return microsPerCall((i) => check(messages[i % keyCount] as Buffer, traceparent), 20_000, 3)
  }
  const pairs = async (traceparent: string, count: number): Promise<string> => {
    const differences: number[] = []
    for (let i = 0; i < count; i += 1) {
      const first = i % 2 === 0 ? await cost(plain) : await cost(traced, traceparent)
      const second = i % 2 === 0 ? await cost(traced, traceparent) : await cost(plain)
      differences.push(i % 2 === 0 ? second - first : first - second)
    }
    differences.sort((a, b) => a - b)
    const [least, median, most] = [0, (count - 1) / 2, count - 1].map((at) =>
      (differences[at] as number).toFixed(2),
    )
    return `${median} µs CPU more (${least} to ${most}, ${count} pairs)`
  }
  return [
    { name: '  with traces on, not sampled', value: await pairs(`00-${ids}-00`, 9) },
    { name: '  sampled, its spans sent nowhere', value: await pairs(`00-${ids}-01`, 3) },
  ]
}

/** The result of one load; `microsPerCall` is the CPU time of the serving process. */
export interface ServedLoad extends LoadResult {
  readonly microsPerCall: number
  /** By how much the serving event loop was late, 99th percentile. */
  readonly lateMs: number
}

const delayResolutionMs = 1

/** Serves Check on loopback, for a load from another process. */
export async function serveCheck(
  check: Check,
  messages: readonly Buffer[],
): Promise<{
  run(load: Omit<Load, 'port' | 'path' | 'messages'>): Promise<ServedLoad>
  stop(): Promise<void>
}> {
  const server = createGrpcServer({
    unary: { [checkPath]: check },
    onFault: console.error,
  })
  const port = await server.listen('127.0.0.1:0')
  const encoded = messages.map((message) => message.toString('base64'))
  return {
    async run(load) {
      const delay = monitorEventLoopDelay({ resolution: delayResolutionMs })
      delay.enable()
      const begin = process.cpuUsage()
      const result = await runLoad({ port, path: checkPath, messages: encoded, ...load })
      const micros = cpuMicros(begin) / load.calls
      delay.disable()
      // The histogram contains the time between two samples.
      const lateMs = Math.max(0, delay.percentile(99) / 1e6 - delayResolutionMs)
      return { ...result, microsPerCall: micros, lateMs }
    },
    stop: () => server.stop(1_000),
  }
}

async function runLoad(load: Load): Promise<LoadResult> {
  const child = fork(new URL('./check-load.ts', import.meta.url))
  child.send(load)
  const [result] = (await once(child, 'message')) as [LoadResult]
  await once(child, 'exit')
  return result
}

/** A CheckRequest with the headers that Envoy sends under `allowed_headers`, and more. */
export function toCheckRequest(
  path: string,
  key: string,
  more: Readonly<Record<string, string>> = {},
): Buffer {
  const headers = { ':method': 'POST', ':path': path, ...more, authorization: `Bearer ${key}` }
  const writer = new WireWriter()
  return writer
    .message(1, () => {
      const peer = () => writer.string(2, '192.0.2.7').unsigned(3, 40_000)
      writer.message(1, () => writer.message(1, () => writer.message(1, peer)))
      writer.message(4, () =>
        writer.message(2, () => {
          writer.string(1, '1234567890').string(2, 'POST')
          for (const [name, value] of Object.entries(headers)) {
            writer.message(3, () => writer.string(1, name).string(2, value))
          }
          writer.string(4, path).string(5, 'localhost').string(10, 'HTTP/1.1')
        }),
      )
    })
    .finish()
}
