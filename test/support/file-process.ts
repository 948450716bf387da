/** Processes that run test files: one per file, or one for many files in turn. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FileNews, FileOrder } from './shared-process.ts'
import type { FileEnd, FileReport } from './tap-report.ts'

/** How a process runs a file. */
export interface FileRun {
  readonly env: NodeJS.ProcessEnv
  /** The time after which a file is ended and counts as failed. */
  readonly limitMs: number
  /** Ends the processes. */
  readonly stopping: AbortSignal
}

const preload = new URL('./preload.js', import.meta.url).href
const sharedProcess = new URL('./shared-process.ts', import.meta.url).pathname
/** Grace period after its limit for a file that should end itself, before SIGTERM and then SIGKILL. */
const graceMs = 5_000
/** How long a process of many files may take to end: it also writes its compile cache. */
const endMs = 30_000
/** A process with this much memory is replaced, because its next file would have to read it. */
const mostBytes = 600 * 2 ** 20

function start(file: string, stdio: ('pipe' | 'inherit' | 'ignore' | 'ipc')[], run: FileRun) {
  const child = spawn(process.execPath, ['--import', preload, file], {
    // With an id, tap omits its own totals.
    env: { ...run.env, TAP: '1', TAP_CHILD_ID: '1', TAP_TIMEOUT: `${run.limitMs / 1000}` },
    stdio,
    // In a process group of its own, with all processes that it starts.
    detached: true,
  })
  const stop = () => signalGroup(child, 'SIGTERM')
  run.stopping.addEventListener('abort', stop)
  if (run.stopping.aborted) stop()
  const fault = new Promise<FileEnd['fault']>((settle) => {
    child.on('error', (error) => settle(error.message))
    // A file that was interrupted or killed has ended none of them.
    child.on('exit', () => signalGroup(child, 'SIGKILL'))
    // Piped output is complete only when the stream closes.
    child.on(child.stdout === null ? 'exit' : 'close', (code, signal) => {
      run.stopping.removeEventListener('abort', stop)
      if (signal !== null) settle(`ended by ${signal}`)
      else settle(code === 0 ? undefined : `exit code ${code}`)
    })
  })
  return { child, fault }
}

/** Runs a file in a process of its own; resolves to the reason if that fails. */
export async function runAlone(
  file: string,
  report: FileReport,
  run: FileRun,
): Promise<FileEnd['fault']> {
  const { child, fault } = start(file, ['ignore', 'pipe', 'inherit'], run)
  child.stdout?.pipe(report.parser)
  const hasEnded = new AbortController()
  endLate(child, run.limitMs, hasEnded.signal).catch(() => {})
  const reason = await fault
  hasEnded.abort()
  return reason
}

/** A process for many files. */
export interface SharedProcess {
  /** Runs a file; resolves to the reason if more fails than its tests. Not concurrently. */
  run(file: string, report: FileReport): Promise<FileEnd['fault']>
  /** Whether it can run another file. */
  readonly isUsable: boolean
  /**
   * Ends the process while no file runs; resolves to the fault if it does not end by itself, because a file has left
   * something open.
   */
  end(): Promise<FileEnd['fault']>
}

export function startSharedProcess(run: FileRun): SharedProcess {
  const { child, fault } = start(sharedProcess, ['ignore', 'inherit', 'inherit', 'ipc'], run)
  let isUsable = true
  const ended = fault.then((reason) => {
    isUsable = false
    return reason
  })
  return {
    get isUsable() {
      return isUsable
    },
    async run(file, { parser }) {
      const order: FileOrder = { file, limitMs: run.limitMs }
      const hasEnded = new AbortController()
      endLate(child, run.limitMs, hasEnded.signal).catch(() => {})
      const ends = new Promise<undefined>((settle) => {
        child.on('message', function hear(news: FileNews) {
          if ('tap' in news) return void parser.write(news.tap)
          if (!('endedWithBytes' in news)) return
          child.off('message', hear)
          if (news.endedWithBytes > mostBytes) isUsable = false
          settle(undefined)
        })
      })
      child.send(order, () => {})
      const reason = await Promise.race([ends, ended.then((why) => why ?? 'the process ended')])
      hasEnded.abort()
      child.removeAllListeners('message')
      parser.end()
      return reason
    },
    async end() {
      isUsable = false
      if (child.connected) child.disconnect()
      const late = sleep(endMs, 'the process of several files did not end by itself', {
        ref: false,
      })
      const early = ended.then(
        (why) => why && `the process of several files did not end by itself: ${why}`,
      )
      const reason = await Promise.race([early, late])
      if (child.exitCode === null && child.signalCode === null) {
        signalGroup(child, 'SIGKILL')
        await once(child, 'exit')
      }
      return reason
    },
  }
}

/** Sends a signal to the remaining processes of a group. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // None is left.
  }
}

/** A file ends itself at its limit, unless it hangs in a loop. */
async function endLate(child: ChildProcess, limitMs: number, signal: AbortSignal): Promise<void> {
  await sleep(limitMs + graceMs, undefined, { signal })
  // On this signal tap reports what is open, and ends.
  child.kill('SIGALRM')
  await sleep(graceMs, undefined, { signal })
  child.kill('SIGKILL')
}
