/** Runs test files concurrently. */
import { globSync, statSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { relative } from 'node:path'
import { type FileRun, runAlone, type SharedProcess, startSharedProcess } from './file-process.ts'
import type { FileEnd, FileReport } from './tap-report.ts'

/** How to run the files. */
export interface TestRun extends Pick<FileRun, 'env' | 'limitMs'> {
  /** Maximum number of concurrent files: by default one per processor, and more while processors are idle. */
  readonly jobs: number
  /** The idle share of the processors since the last call; measured by default. */
  readonly idleShare?: () => number
  /** Whether each file has a process of its own; by default only those that need it. */
  readonly alone?: boolean
  /** Called when a file begins. */
  readonly begin: (file: string) => FileReport
}

/**
 * Prefixes of files that take half a minute or more, mostly waiting, and then of those that wait for processes. They
 * begin first: files that compute run beside them, and none is left at the end.
 */
const SLOW = [
  'test/e2e/reservations.',
  'test/e2e/identity.',
  'test/dev/up.',
  'test/console/everywhere.',
  'test/e2e/journal.',
  'test/ratelimit/holds/redis-holds.',
  'test/e2e/table-faults.',
  'test/e2e/ended-pods.',
  'test/e2e/pod.',
  'test/wiring/generated-policies.',
  'test/cli/controller.',
  'test/bench/gateway/bench.',
  'test/e2e/bursts.',
  'test/models/sources/cluster-source.',
  'test/ratelimit/sums/journal-faults.',
  'test/walk-through',
  'test/cli/fresh-clone.',
  'test/e2e/',
  'test/wiring/',
  'test/cluster/controller/',
  'test/cli/',
  'test/console/',
  'test/bench/',
  'test/models/sources/',
  'test/store/',
  'test/usage/notices/',
  'test/keys/revocations/',
  'test/ratelimit/',
  'test/grpc/',
]

/**
 * Files with a process of their own: they measure what their process uses, or change it, or test the program that runs
 * them. The others follow one another in a few processes.
 */
const ALONE = new RegExp(
  `^test/(${[
    ...['bench/gateway/(bench|load|process-costs|read-probe)', 'console/speed', 'e2e/known-costs'],
    ...['e2e/sequential-clients', 'e2e/table-faults', 'support/'],
  ].join('|')})`,
)
const shares = (file: string): boolean => file.startsWith('test/') && !ALONE.test(file)

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

/** The test files of these files and folders, each once; `absent`: what does not exist, or has none. */
export function findNamed(named: readonly string[]) {
  const absent: string[] = []
  const files = named.flatMap((path) => {
    const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory()
    const isBelow = (file: string) => !relative(path, file).startsWith('..')
    const found = isFolder ? findTestFiles().filter(isBelow) : [path]
    if (isFolder === undefined) absent.push(path)
    if (found.length === 0) absent.push(`*.test.ts in ${path}`)
    return found
  })
  return { files: [...new Set(files)], absent }
}

/**
 * Resolves when every file has ended; to false after a signal, which ends the running files and
 * starts no other.
 */
export async function runTestFiles(files: readonly string[], run: TestRun): Promise<boolean> {
  const { jobs, idleShare = observeIdleness() } = run
  const waiting = [...files]
  const running = new Set<Promise<void>>()
  const unused: SharedProcess[] = []
  const stopping = new AbortController()
  const { signal: stop } = stopping
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      waiting.length = 0
      stopping.abort()
    })
  }
  const start = { env: run.env, limitMs: run.limitMs, stopping: stop }
  const runShared = async (file: string, report: FileReport): Promise<FileEnd['fault']> => {
    const shared = unused.pop() ?? startSharedProcess(start)
    const fault = await shared.run(file, report)
    if (shared.isUsable) unused.push(shared)
    else return (await shared.end()) ?? fault
    return fault
  }
  const runFile = async (file: string) => {
    const begun = performance.now()
    const report = run.begin(file)
    const isShared = run.alone !== true && shares(file)
    const fault = await (isShared ? runShared(file, report) : runAlone(file, report, start))
    report.end({ fault, ms: performance.now() - begun })
  }
  const begin = () => {
    const file = waiting.shift()
    if (file === undefined) return
    const ended = runFile(file).finally(() => running.delete(ended))
    running.add(ended)
  }
  // Many files wait for a timeout or a process, and leave the processors to others meanwhile.
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
  for (const fault of await Promise.all(unused.map((shared) => shared.end()))) {
    if (fault !== undefined && !stop.aborted) run.begin('a shared process').end({ fault, ms: 0 })
  }
  return !stop.aborted
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
