import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { createDatabase } from '../support/database.ts'
import { freePorts } from '../support/free-ports.ts'
import { noRateLimits } from '../support/no-rate-limits.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

test('logs a collector that is unavailable once, and its recovery once', async (t) => {
  const receiver = await startOtlpReceiver(t)
  const folder = temporaryFolder(t)
  const [api, internal, grpc, metrics] = await freePorts(4)
  writeFileSync(join(folder, 'tokens.csv'), 'a-token,alice,1,team-a')
  const service = runTollgate(t, ['serve'], {
    DATABASE_URL: await createDatabase(t),
    DATA_DIR: folder,
    RESOURCES: `file:${join(packageRoot, 'examples', 'resources')}`,
    TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
    API_ADDRESS: `127.0.0.1:${api}`,
    INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
    GRPC_ADDRESS: `127.0.0.1:${grpc}`,
    METRICS_ADDRESS: `127.0.0.1:${metrics}`,
    ...noRateLimits,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.httpUrl,
    OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_BSP_EXPORT_TIMEOUT: '2000',
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '50',
    OTEL_METRIC_EXPORT_INTERVAL: '100',
  })
  await service.until('"ready"')
  const ask = async (): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${api}/v1/subscriptions`, {
      headers: { authorization: 'Bearer a-token', traceparent },
    })
    t.equal(answer.status, 200)
    await answer.text()
  }
  const told = (signal: string): readonly string[] =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes(`"signal":"${signal}"`))
      .map((line) => (line.includes('again') ? 'back' : 'unavailable'))
  const signals = ['traces', 'metrics']
  const until = (state: string, what: string) =>
    poll(
      async () => {
        await ask()
        return signals.every((signal) => told(signal).at(-1) === state)
      },
      what,
      60_000,
    )

  await ask()
  await poll(() => receiver.spans.some(({ name }) => name.startsWith('GET ')), 'spans are sent')
  await poll(() => receiver.points.has('tollgate_checks'), 'metrics are sent')
  for (const mode of [400, 429, 'hang'] as const) {
    receiver.mode = mode
    await until('unavailable', `${mode} is logged`)
    const lines = signals.map((signal) => told(signal).length)
    // More spans than the queue holds.
    for (let i = 0; i < 150; i += 1) await ask()
    t.strictSame(
      signals.map((signal) => told(signal).length),
      lines,
      `${mode} is logged once`,
    )
    receiver.mode = 'take'
    receiver.spans.length = 0
    await until('back', `the recovery after ${mode} is logged`)
    t.ok(receiver.spans.length > 0)
  }
  for (const signal of signals) {
    const states = told(signal)
    t.strictSame(
      states,
      states.map((_, i) => (i % 2 === 0 ? 'unavailable' : 'back')),
      'one line per change',
    )
  }
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
})

test('a collector that hangs fails no stop', async (t) => {
  const receiver = await startOtlpReceiver(t)
  receiver.mode = 'hang'
  const service = runTollgate(t, ['serve'], {
    ...{ DATABASE_URL: await createDatabase(t), DATA_DIR: temporaryFolder(t) },
    ...{ API_ADDRESS: '127.0.0.1:0', INTERNAL_ADDRESS: '127.0.0.1:0', GRPC_ADDRESS: '127.0.0.1:0' },
    ...{ METRICS_ADDRESS: 'off', OTEL_EXPORTER_OTLP_ENDPOINT: receiver.httpUrl },
  })
  await service.until('"ready"')
  service.signal('SIGTERM')
  t.equal(await service.ended, 0)
})

test('loads the SDK only if something is exported', async (t) => {
  const program = `
    const { registerHooks } = await import('node:module')
    const seen = []
    registerHooks({ load: (url, context, next) => (seen.push(url), next(url, context)) })
    const { serve } = await import(${JSON.stringify(join(packageRoot, 'src', 'main.ts'))})
    const service = await serve(process.env)
    await service.stop()
    console.log(seen.some((url) => url.includes('sdk-node')) ? 'loaded' : 'not loaded')
    process.exit(0)`
  const run = async (env: Record<string, string>): Promise<string> => {
    const folder = temporaryFolder(t)
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: packageRoot,
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: await createDatabase(t),
        DATA_DIR: folder,
        API_ADDRESS: '127.0.0.1:0',
        INTERNAL_ADDRESS: '127.0.0.1:0',
        GRPC_ADDRESS: '127.0.0.1:0',
        METRICS_ADDRESS: '127.0.0.1:0',
        LOG_LEVEL: 'silent',
        AUDIT_LOG: 'off',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    await once(child, 'close')
    return output.trim()
  }
  t.equal(await run({ OTEL_SERVICE_NAME: 'a' }), 'not loaded')
  t.equal(await run({ OTEL_TRACES_EXPORTER: 'none' }), 'not loaded')
  t.equal(await run({ OTEL_TRACES_EXPORTER: 'otlp' }), 'loaded')
})
