/**
 * `npm test`: format, lint, types, then every test file with a real Envoy, Postgres and Valkey,
 * which it obtains and starts itself. The last line gives the numbers of passed and failed tests;
 * any other failure counts as a failed test. If only a few files fail, they run again, one at a time.
 *
 * With files or folders as arguments it runs only those test files, without the checks. `--timeout=600`:
 * the time limit of a file in seconds; `--jobs=4`: how many files run at a time, at most.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findEnvoy } from '../dev/envoy-binary.ts'
import type { EmbeddedPostgres } from '../dev/postgres/embedded-postgres.ts'
import { packageRoot } from '../src/runtime/package-root.ts'
import { claimForRun, removeDeadRuns } from './support/dead-runs.ts'
import { bundleService } from './support/service-bundle.ts'
import { bundleTap } from './support/tap-bundle.ts'
import { createTapReport } from './support/tap-report.ts'
import { makeDatabaseFolder, makeFilesFolder, memory } from './support/temporary-folder.ts'
import { findNamed, findTestFiles, runTestFiles, type TestRun } from './support/test-files.ts'
import { startTestPostgres } from './support/test-postgres.ts'
import { findValkey } from './support/valkey-binary.ts'

const { values: options, positionals: named } = parseArgs({
  allowPositionals: true,
  options: {
    timeout: { type: 'string', default: '600' },
    jobs: { type: 'string', default: String(4 * availableParallelism()) },
  },
})
const inCi = process.env.CI === 'true'
const report = createTapReport(print)
const missing: string[] = []
const flaky: string[] = []
const maxRunAgain = 5
/** How often a failed file runs again. */
const maxRepeats = 2
const startedAt = performance.now()
process.chdir(packageRoot)

for (const name of ['timeout', 'jobs'] as const) {
  if (/^[1-9]\d{0,5}$/.test(options[name])) continue
  print(`--${name} is a whole number above 0.`)
  process.exit(2)
}
const { files, absent } = findNamed(named)
if (absent.length > 0) {
  print(`There is no ${absent.join(', ')}`)
  process.exit(2)
}
const env: NodeJS.ProcessEnv = { ...process.env, TAP_BUNDLE: await bundleTap() }
const isWhole = files.length === 0
// Downloads leave the processors to the others.
await Promise.all([
  // Each of its threads would check much of the same, while another processor bundles.
  isWhole && step('types', () => runTool('tsc', ['--singleThreaded'])),
  isWhole && bundle(),
  obtain('Envoy', async () => {
    env.ENVOY_PATH = await findEnvoy({ path: env.ENVOY_PATH, env, log: print })
  }),
  obtain('Valkey', async () => {
    env.VALKEY_PATH = await findValkey(env)
  }),
])
for (const parent of [memory, tmpdir()]) if (existsSync(parent)) removeDeadRuns(parent)
const folder = makeDatabaseFolder()
claimForRun(folder.path)
// Those that run at night fill disks.
if (files.every((file) => file.endsWith('.test.ts')))
  env.TMPDIR = makeFilesFolder(folder) ?? env.TMPDIR
env.CLAIMED_PORTS = join(folder.path, 'ports')
mkdirSync(env.CLAIMED_PORTS)
let database: EmbeddedPostgres | undefined
await obtain('Postgres', async () => {
  if (env.TEST_DATABASE_URL) return
  database = await startTestPostgres(join(folder.path, 'postgres'))
  env.TEST_DATABASE_URL = database.url
})
// The first tests wait for what they start.
const linted =
  isWhole && step('format and lint', () => runTool('biome', ['ci', '--colors=off', '.']))
try {
  await runTests()
  await linted
} finally {
  await database?.stop()
  folder.remove()
}
const { passed, failed, skipped } = report.score
if (isWhole) {
  print('\nslowest files')
  for (const line of report.slowest(10)) print(line)
}
for (const file of flaky) print(`FLAKY ${file}: failed at first and passed when run again`)
print(`\nin ${seconds(startedAt)}`)
print(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = failed === 0 ? 0 : 1

async function runTests(): Promise<void> {
  const run = {
    env,
    jobs: Number(options.jobs),
    limitMs: Number(options.timeout) * 1000,
    begin: report.begin,
  }
  const isComplete = await runTestFiles(isWhole ? findTestFiles() : files, run)
  if (isComplete && isWhole) await runAgain(run)
  if (report.score.passed === 0 && report.score.failed === 0) {
    print('FAIL no test ran')
    report.score.failed += 1
  }
  for (const test of report.skips) print(`SKIPPED ${test}`)
  for (const what of missing) print(`SKIPPED everything that needs ${what}: it is not available`)
}

/**
 * Runs the failed files again, one at a time and each in a process of its own: a deadline missed on a busy machine may be met now.
 * Files that pass are reported as flaky. If more than a few have failed, it is not by chance.
 */
async function runAgain(run: TestRun): Promise<void> {
  for (let i = 0; i < maxRepeats; i += 1) {
    const { length } = report.failedFiles
    if (length === 0 || length > maxRunAgain) return
    const again = report.retractFailures()
    print(`\nrunning again, one at a time: ${again.join(', ')}`)
    // What a process of several files has left open is no file's.
    const named = again.filter((file) => existsSync(file))
    const isComplete = await runTestFiles(named, { ...run, jobs: 1, alone: true })
    if (!isComplete) return
    flaky.push(...again.filter((file) => !report.failedFiles.includes(file)))
  }
}

/** A missing program skips its tests visibly on a developer's machine, and fails the run in CI. */
async function obtain(what: string, action: () => Promise<void>): Promise<void> {
  const begun = performance.now()
  try {
    await action()
    print(`ok   ${what} (${seconds(begun)})`)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    print(`${inCi ? 'FAIL' : 'MISSING'} ${what}: ${reason}`)
    missing.push(what)
    if (inCi) report.score.failed += 1
  }
}

/** A few files are tested as they are: to write it takes longer than they save. */
async function bundle(): Promise<void> {
  env.SERVICE_BUNDLE = await bundleService()
}

async function step(name: string, action: () => Promise<boolean>): Promise<void> {
  const begun = performance.now()
  const ok = await action()
  print(`${ok ? 'ok  ' : 'FAIL'} ${name} (${seconds(begun)})`)
  if (!ok) report.score.failed += 1
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
