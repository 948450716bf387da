/** Runs test files, several at a time, each in a process of its own that prints TAP. */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FileEnd, FileReport } from './tap-report.ts'

/** How to run the files. */
export interface TestRun {
  readonly env: NodeJS.ProcessEnv
  /** The maximum at a time: by default one per processor, and more while processors are idle. */
  readonly jobs: number
  /** The idle share of the processors since the last call; measured by default. */
  readonly idleShare?: () => number
  /** The time after which a file is ended and counts as failed. */
  readonly limitMs: number
  /** Called when a file begins. */
  readonly begin: (file: string) => FileReport
}

/**
 * Prefixes of files that wait for processes, some for a minute. They begin first, so that none is
 * left at the end.
 */
const SLOW = [
  'test/e2e/',
  'test/wiring/',
  'test/cluster/controller/',
  'test/cli/',
  'test/console/',
  'test/models/sources/',
  'test/store/',
  'test/grpc/',
  'test/walk-through',
]

/** Every test file below `test`, in the order in which to run them. */
export function findTestFiles(): string[] {
  const rank = (file: string) => {
    const at = SLOW.findIndex((folder) => file.startsWith(folder))
    return at < 0 ? SLOW.length : at
  }
  return globSync('test/**/*.test.ts')
    .sort()
    .sort((a, b) => rank(a) - rank(b))
}

/**
 * Resolves when every file has ended; to false after a signal, which ends the running files and
 * starts no other.
 */
export async function runTestFiles(files: readonly string[], run: TestRun): Promise<boolean> {
  const { jobs, idleShare = observeIdleness() } = run
  const waiting = [...files]
  const running = new Set<Promise<void>>()
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      waiting.length = 0
      stopping.abort()
    })
  }
  const begin = () => {
    const file = waiting.shift()
    if (file === undefined) return
    const ended = runFile(file, run, stopping.signal).finally(() => running.delete(ended))
    running.add(ended)
  }
  // Many files wait for a time-out or a process, and leave the processors to others meanwhile.
  const timer = setInterval(() => {
    const isIdle = idleShare() > enoughIdle
    if (isIdle && running.size < jobs) begin()
  }, pollMs)
  const always = Math.min(jobs, availableParallelism())
  while (waiting.length + running.size > 0) {
    while (waiting.length > 0 && running.size < always) begin()
    await Promise.race(running)
  }
  clearInterval(timer)
  return !stopping.signal.aborted
}

/**
 * Beyond one file per processor, one more file begins at a time if this share of all processors is
 * idle.
 */
const enoughIdle = 0.1
/** About how long it takes to see whether a file needs a processor, in milliseconds. */
const pollMs = 300

/**
 * Returns a function that gives the idle share of the processors since its last call, from 0 to 1.
 */
function observeIdleness(): () => number {
  const times = () => {
    const all = cpus().map((cpu) => Object.values(cpu.times).reduce((a, b) => a + b, 0))
    const idle = cpus().map((cpu) => cpu.times.idle)
    return [idle, all].map((each) => each.reduce((a, b) => a + b, 0)) as [number, number]
  }
  let [idleBefore, allBefore] = times()
  return () => {
    const [idle, all] = times()
    const share = (idle - idleBefore) / Math.max(1, all - allBefore)
    idleBefore = idle
    allBefore = all
    return share
  }
}

const preload = new URL('./preload.js', import.meta.url).href

async function runFile(file: string, run: TestRun, stopping: AbortSignal): Promise<void> {
  const begun = performance.now()
  const report = run.begin(file)
  const child = spawn(process.execPath, ['--import', preload, file], {
    // With an id, tap omits its own totals.
    env: { ...run.env, TAP: '1', TAP_CHILD_ID: '1', TAP_TIMEOUT: `${run.limitMs / 1000}` },
    stdio: ['ignore', 'pipe', 'inherit'],
    // With a process group of its own, which all that it starts is in.
    detached: true,
  })
  const stop = () => signalGroup(child, 'SIGTERM')
  stopping.addEventListener('abort', stop)
  child.stdout.pipe(report.parser)
  const hasEnded = new AbortController()
  const fault = new Promise<FileEnd['fault']>((settle) => {
    child.on('error', (error) => settle(error.message))
    // One that was interrupted or killed has ended nothing of that.
    child.on('exit', () => signalGroup(child, 'SIGKILL'))
    child.on('close', (code, signal) => {
      if (signal !== null) settle(`ended by ${signal}`)
      else settle(code === 0 ? undefined : `exit code ${code}`)
    })
  })
  endLate(child.kill.bind(child), run.limitMs, hasEnded.signal).catch(() => {})
  const end = { fault: await fault, ms: performance.now() - begun }
  hasEnded.abort()
  stopping.removeEventListener('abort', stop)
  report.end(end)
}

/** Sends a signal to the processes that are left of a group. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // There are none.
  }
}

/** A file ends itself at its limit (TAP_TIMEOUT), unless it hangs in a loop. */
async function endLate(
  kill: (signal: NodeJS.Signals) => void,
  limitMs: number,
  signal: AbortSignal,
): Promise<void> {
  await sleep(limitMs + 5_000, undefined, { signal })
  // On this signal tap reports what is open, and ends.
  kill('SIGALRM')
  await sleep(5_000, undefined, { signal })
  kill('SIGKILL')
}
