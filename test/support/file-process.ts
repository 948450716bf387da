/** Processes that run test files: of a file's own, or of many files, one after the other. */
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
/** How long after its limit a file, which should end itself, is asked to, and then killed. */
const graceMs = 5_000
/** How long a process of many files may take to end: it also writes what it has compiled. */
const endMs = 30_000
/** A process is replaced once it has this much memory, which its next file would have to read. */
const mostBytes = 600 * 2 ** 20

function start(file: string, stdio: ('pipe' | 'inherit' | 'ignore' | 'ipc')[], run: FileRun) {
  const child = spawn(process.execPath, ['--import', preload, file], {
    // With an id, tap omits its own totals.
    env: { ...run.env, TAP: '1', TAP_CHILD_ID: '1', TAP_TIMEOUT: `${run.limitMs / 1000}` },
    stdio,
    // With a process group of its own, which all that it starts is in.
    detached: true,
  })
  const stop = () => signalGroup(child, 'SIGTERM')
  run.stopping.addEventListener('abort', stop)
  if (run.stopping.aborted) stop()
  const fault = new Promise<FileEnd['fault']>((settle) => {
    child.on('error', (error) => settle(error.message))
    // One that was interrupted or killed has ended nothing of that.
    child.on('exit', () => signalGroup(child, 'SIGKILL'))
    // Its output, if that comes here, is complete only when it closes.
    child.on(child.stdout === null ? 'exit' : 'close', (code, signal) => {
      run.stopping.removeEventListener('abort', stop)
      if (signal !== null) settle(`ended by ${signal}`)
      else settle(code === 0 ? undefined : `exit code ${code}`)
    })
  })
  return { child, fault }
}

/** Runs a file in a process of its own; resolves to why that failed, if it did. */
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
  /** Runs a file; resolves to why that failed, beyond its tests, if it did. Not while another runs. */
  run(file: string, report: FileReport): Promise<FileEnd['fault']>
  /** Whether it can run another file. */
  readonly isUsable: boolean
  /** Lets it end, once no file runs; resolves to what is wrong if it does not end by itself, as a file has left something open. */
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

/** Sends a signal to the processes that are left of a group. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // There are none.
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
