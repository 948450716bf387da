/** `npm run bench`: measures a request through the gateway, compared with a bare Envoy. */

import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { asksForHelp } from '../../src/cli/parse-command.ts'
import { StartError } from '../../src/runtime/start-error.ts'
import { awaitStopSignal } from '../../src/runtime/stop-signals.ts'
import type { Burst } from './burst.ts'
import type { Asking } from './cases.ts'
import { readResults, renderComparison } from './compare.ts'
import { startLoad } from './load/start-load.ts'
import { countRuns, type Measuring, measure, type Subject, warmUp } from './measure.ts'
import { type BenchOptions, readOptions, WrongCall } from './options.ts'
import { createProgress } from './progress.ts'
import { renderResults } from './report.ts'
import type { Results } from './results.ts'
import { modelName, modelPath } from './sample-world.ts'
import { askingOf, subjectsOfTarget } from './target.ts'
import { createWorld } from './world.ts'

const usage = `Usage: npm run bench -- [--rows path,body-json-small] [--seconds 180] [--json new.json] [--compare old.json]
       npm run bench -- --target https://gateway.example --model <name> [--model-path /namespace/name]

Measures what a request costs through the gateway, and prints one table. It starts a gateway on free
ports of this machine, with a bare Envoy and servers that only answer Check for comparison, and
measures them in turn; with --target it measures a running gateway. Ctrl-C stops everything.

  --rows <names>       only these rows, or rows whose names contain these words: path, body, json, stream, small, large, huge
  --seconds <n>        total time of the measurements, default 180
  --rounds <n>         runs of each kind, at least 3
  --connections <n>    open connections, default 32
  --rate <n>           requests per second of the open loop, default 400
  --json <file>        writes all runs, for --compare; - writes them to standard output instead of the table
  --compare <file>     also prints the changes since --json wrote this file, with the noise of both

Without --target:
  --concurrency <n>    threads of each Envoy, default 1
  --set NAME=value     a setting of the service; settings in the environment are ignored
  --no-yardsticks      only the gateway and the bare Envoy

With a running gateway, which counts and logs these requests:
  --target <url>       the gateway; --model <name> is the model in request bodies
  --model-path <path>  also measures the rows by path, /namespace/model
  --key <key>          the API key; or TOLLGATE_KEY, which other users of this machine cannot see
  --baseline <url>     the model server or another gateway, for comparison; it gets the key too
  --insecure-http      allows sending the key over plain http to another machine`

const stoppedStatus = 130
const warmUpMs = 10_000

/**
 * Ends the process with status 0 after a measurement, 130 if it was interrupted; returns 2 for
 * invalid arguments. Rejects if it cannot start or its requests are refused; no process is then
 * left running.
 */
async function bench(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (asksForHelp(args)) {
    console.log(usage)
    return 0
  }
  try {
    const options = readOptions(args, env)
    // Read before minutes are spent on a measurement.
    const before = options.compare === undefined ? undefined : readFile(options.compare)
    const results = await run(options, env)
    report(options, results, before)
    process.exit(0)
  } catch (error) {
    if (!(error instanceof WrongCall)) throw error
    console.error(`${error.message}\n\n${usage}`)
    return 2
  }
}

function readFile(file: string): Results {
  try {
    return readResults(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new StartError(`--compare: ${file} cannot be read.`, { cause })
  }
}

function report({ json }: BenchOptions, results: Results, before: Results | undefined): void {
  if (json === '-') console.log(JSON.stringify(results))
  else console.log(renderResults(results))
  if (before !== undefined && json !== '-') console.log(`\n${renderComparison(before, results)}`)
  if (json !== undefined && json !== '-') writeFileSync(json, `${JSON.stringify(results)}\n`)
}

/** What is measured, and how it is stopped. */
interface World {
  start(): Promise<{
    readonly subjects: readonly Subject[]
    readonly asking: Asking
    readonly measureBursts?: () => Promise<readonly Burst[]>
    readonly broken?: Promise<never>
  }>
  stop(): Promise<void>
  kill(): void
}

function worldOf(
  options: BenchOptions,
  env: NodeJS.ProcessEnv,
  log: (line: string) => void,
): World {
  const { target } = options
  if (target !== undefined) {
    const there = { subjects: subjectsOfTarget(target), asking: askingOf(target) }
    return { start: async () => there, stop: async () => {}, kill() {} }
  }
  const world = createWorld({ ...options, env, log })
  return {
    ...world,
    async start() {
      const started = await world.start()
      const { keys } = started
      return { ...started, asking: { host: 'gateway.test', keys, model: modelName, modelPath } }
    },
  }
}

async function run(options: BenchOptions, env: NodeJS.ProcessEnv): Promise<Results> {
  const progress = createProgress(process.stderr)
  const world = worldOf(options, env, progress.line)
  const load = startLoad()
  const stopping = new AbortController()
  const stop = async (): Promise<void> => {
    stopping.abort()
    await Promise.all([load.stop(), world.stop()])
  }
  void awaitStopSignal(world.kill).then(async (reason) => {
    progress.line(`Stopping (${reason})`)
    await stop()
    process.exit(stoppedStatus)
  })
  try {
    const started = await world.start()
    const { broken = new Promise<never>(() => {}), measureBursts, ...there } = started
    const measuring = { ...there, load, signal: stopping.signal, progress: progress.run }
    const results = await Promise.race([measureAll(options, measuring), broken])
    const bursts = measureBursts && (await Promise.race([measureBursts(), broken]))
    return { ...results, bursts }
  } catch (error) {
    // An interrupt exits with its own status.
    if (stopping.signal.aborted) await new Promise(() => {})
    throw error
  } finally {
    progress.clear()
    if (!stopping.signal.aborted) await stop()
  }
}

async function measureAll(
  options: BenchOptions,
  there: Pick<Measuring, 'subjects' | 'asking' | 'load' | 'signal' | 'progress'>,
): Promise<Results> {
  const runs = countRuns({ ...options, ...there })
  const measuring: Measuring = {
    ...options,
    ...there,
    runMs: (options.seconds * 1_000) / runs,
    warmUpMs: Math.min(warmUpMs, options.seconds * 250),
  }
  const [loadBefore = 0] = loadavg()
  const at = new Date().toISOString()
  await warmUp(measuring)
  const series = await measure(measuring)
  const { rounds, connections, perSecond, envoyThreads, target } = options
  return {
    about: {
      version: 1,
      at,
      node: process.versions.node,
      processor: cpus()[0]?.model.trim() ?? 'unknown processor',
      cores: cpus().length,
      loadBefore,
      loadAfter: loadavg()[0] ?? 0,
      rounds,
      runMs: measuring.runMs,
      connections,
      perSecond,
      envoyThreads,
      target: target?.url,
    },
    series,
  }
}

try {
  process.exitCode = await bench(process.argv.slice(2), process.env)
} catch (error) {
  console.error(error instanceof StartError ? explain(error) : error)
  process.exit(1)
}

/** A StartError is a sentence with its cause. */
function explain({ message, cause }: StartError): string {
  return cause instanceof Error ? `${message} (${cause.message})` : message
}
