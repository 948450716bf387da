/** `tollgate bench`: what a request costs through the gateway, beside an Envoy that only passes it on. */

import { startLoad } from './bench/load/start-load.ts'
import { type Measuring, measure, warmUp } from './bench/measure.ts'
import { type BenchOptions, readOptions, WrongCall } from './bench/options.ts'
import { createProgress } from './bench/progress.ts'
import { renderResults } from './bench/report.ts'
import { createWorld, modelName, modelPath, type World } from './bench/world.ts'
import { onStop } from './stop-signals.ts'
import { asksForHelp } from './usage.ts'

const USAGE = `Usage: tollgate bench [--rows path,body-json-small] [--seconds 180] [--rounds 3]

What a request costs through the gateway: starts all of it on free ports of this machine, with a bare
Envoy beside it, and measures both in turn. Ctrl-C stops all of it.

  --rows <names>       only these rows, or rows with these words: path, body, json, stream, small, large
  --seconds <n>        for measuring altogether, 180
  --rounds <n>         runs of each kind, 3 at least
  --connections <n>    open at once, 32
  --rate <n>           requests a second of the open loop, 400
  --concurrency <n>    threads of each Envoy, 1
  --set NAME=value     a setting of the service; others than these are the defaults`

const STOPPED_STATUS = 130

/**
 * Ends the process with status 0 when it has measured, 130 when it was stopped; answers 2 for a wrong
 * call. Rejects when it cannot start or its requests are refused; nothing is left running then.
 */
export async function bench(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (asksForHelp(args)) {
    console.log(USAGE)
    return 0
  }
  try {
    return await benchHere(readOptions(args), env)
  } catch (error) {
    if (!(error instanceof WrongCall)) throw error
    console.error(`${error.message}\n\n${USAGE}`)
    return 2
  }
}

async function benchHere(options: BenchOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const progress = createProgress(process.stderr)
  const world = createWorld({
    env,
    set: options.set,
    envoyThreads: options.envoyThreads,
    log: progress.line,
  })
  const load = startLoad()
  const stopping = new AbortController()
  const stop = async (): Promise<void> => {
    stopping.abort()
    await Promise.all([load.stop(), world.stop()])
  }
  void onStop(world.kill).then(async (reason) => {
    progress.line(`Stopping (${reason})`)
    await stop()
    process.exit(STOPPED_STATUS)
  })
  try {
    const started = await world.start()
    const results = await Promise.race([
      measureWorld(options, started, load, stopping.signal, progress.run),
      started.broken,
    ])
    console.log(
      renderResults(
        results,
        options.cases.map(({ name }) => name),
      ),
    )
  } catch (error) {
    // Whoever asked to stop has been told so.
    if (stopping.signal.aborted) await new Promise(() => {})
    throw error
  } finally {
    progress.clear()
    if (!stopping.signal.aborted) await stop()
  }
  process.exit(0)
}

const WARM_UP_MS = 10_000

async function measureWorld(
  options: BenchOptions,
  world: World,
  load: Measuring['load'],
  signal: AbortSignal,
  progress: Measuring['progress'],
) {
  const subjects = [
    { name: 'bare', url: world.bare, envoy: world.pidOf('the bare Envoy') },
    {
      name: 'gateway',
      url: world.gateway,
      envoy: world.pidOf('Envoy'),
      service: world.pidOf('the service'),
    },
  ]
  const runs = 2 * options.rounds * subjects.length * options.cases.length
  const measuring: Measuring = {
    ...options,
    subjects,
    load,
    asking: { host: new URL(world.gateway).host, modelPath, model: modelName, keys: world.keys },
    runMs: (options.seconds * 1_000) / runs,
    warmUpMs: Math.min(WARM_UP_MS, options.seconds * 250),
    signal,
    progress,
  }
  await warmUp(measuring)
  return await measure(measuring)
}
