/**
 * `npm test`: format, lint, types, then every test file with a real Envoy, Postgres and Valkey,
 * which it gets and starts itself. The last line says how many tests passed and failed; whatever else went
 * wrong counts as a failed one. Arguments name test files, to run only those and no checks.
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findEnvoy } from '../src/cli/envoy-binary.ts'
import { PACKAGE_ROOT } from '../src/package-root.ts'
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../src/store/postgres/embedded-postgres.ts'
import { createTapReport, type Score } from './support/tap-report.ts'
import { makeTemporaryFolder } from './support/temporary-folder.ts'
import { findValkey } from './support/valkey-binary.ts'

const files = process.argv.slice(2)
const inCi = process.env.CI === 'true'
const total: Score = { passed: 0, failed: 0, skipped: 0 }
const missing: string[] = []
const startedAt = performance.now()
process.chdir(PACKAGE_ROOT)

if (files.length === 0) {
  await step('format and lint', () => runTool('biome', ['ci', '--colors=off', '.']))
  await step('types', () => runTool('tsc', []))
}
const env: NodeJS.ProcessEnv = { ...process.env }
await obtain('Envoy', async () => {
  env.ENVOY_PATH = await findEnvoy({ path: env.ENVOY_PATH, env, log: print })
})
await obtain('Valkey', async () => {
  env.VALKEY_PATH = await findValkey(env)
})
const folder = makeTemporaryFolder()
let database: EmbeddedPostgres | undefined
await obtain('Postgres', async () => {
  if (env.TEST_DATABASE_URL) return
  database = await startEmbeddedPostgres({
    directory: join(folder.path, 'postgres'),
    log: () => {},
  })
  env.TEST_DATABASE_URL = database.url
})
try {
  await prepareTap()
  await runTests()
} finally {
  await database?.stop()
  folder.remove()
}
const { passed, failed, skipped } = total
print(`\nin ${seconds(startedAt)}`)
print(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = failed === 0 ? 0 : 1

/**
 * tap is a program that its plugins are built into, and comes with a TypeScript loader which the
 * compiler we use breaks. Its first run would rebuild it without (.taprc), but still load that.
 */
async function prepareTap(): Promise<void> {
  const built = join('node_modules', '@tapjs', 'test', 'test-built', 'dist', 'esm', 'index.js')
  if (!readFileSync(built, 'utf8').includes('@tapjs/typescript')) return
  await step('preparing tap', () => runTool('tap', ['build']))
}

async function runTests(): Promise<void> {
  const report = createTapReport(print)
  const tap = spawn(
    process.execPath,
    [join('node_modules', 'tap', 'dist', 'esm', 'run.mjs'), 'run', '--reporter=tap', ...files],
    { env, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => tap.kill('SIGTERM'))
  }
  tap.stdout.pipe(report.parser)
  const status = await new Promise((settle) => {
    tap.on('error', (error) => settle(error.message))
    tap.on('close', (code, signal) => settle(code ?? signal))
  })
  total.passed += report.score.passed
  total.failed += report.score.failed
  total.skipped += report.score.skipped
  if (status !== 0 && report.score.failed === 0) {
    print(`FAIL tap ended with ${status}, though no test failed`)
    total.failed += 1
  } else if (report.score.passed === 0 && report.score.failed === 0) {
    print('FAIL no test ran')
    total.failed += 1
  }
  for (const test of report.skips) print(`SKIPPED ${test}`)
  for (const what of missing) print(`SKIPPED everything that needs ${what}: it could not be had`)
}

/** What cannot be had is a visible skip on somebody's machine, and a failure in CI. */
async function obtain(what: string, action: () => Promise<void>): Promise<void> {
  const begun = performance.now()
  try {
    await action()
    print(`ok   ${what} (${seconds(begun)})`)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    print(`${inCi ? 'FAIL' : 'MISSING'} ${what}: ${reason}`)
    missing.push(what)
    if (inCi) total.failed += 1
  }
}

async function step(name: string, action: () => Promise<boolean>): Promise<void> {
  const begun = performance.now()
  const ok = await action()
  print(`${ok ? 'ok  ' : 'FAIL'} ${name} (${seconds(begun)})`)
  if (!ok) total.failed += 1
}

async function runTool(name: string, args: string[]): Promise<boolean> {
  const path = join('node_modules', '.bin', name)
  if (!existsSync(path)) return false
  const tool = spawn(path, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  for (const stream of [tool.stdout, tool.stderr]) {
    stream.on('data', (chunk: Buffer) => output.push(chunk))
  }
  const ok = await new Promise<boolean>((settle) => {
    tool.on('error', () => settle(false))
    tool.on('close', (code) => settle(code === 0))
  })
  if (!ok) process.stdout.write(Buffer.concat(output))
  return ok
}

function print(line: string): void {
  console.log(line)
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`
}
