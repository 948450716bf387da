import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** One run of a process: the id alone may be reused after it has ended. */
export interface ProcessIdentity {
  readonly pid: number
  /** Its start time in the system's own format; only for comparison. */
  readonly started: string
}

/**
 * The identity of the running process `pid`, or undefined if there is none (or only its zombie).
 */
export function identify(pid: number): ProcessIdentity | undefined {
  const started = process.platform === 'linux' ? startedByProc(pid) : startedByPs(pid)
  return started === undefined ? undefined : { pid, started }
}

/** Whether exactly this process still runs. */
export function isRunning(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.started === identity.started
}

/** The command line of `pid`, words separated by spaces, or an empty text if it cannot be read. */
export function commandLine(pid: number): string {
  if (process.platform === 'linux') {
    return (readIfThere(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim()
  }
  return ps(pid, 'command=')
}

/** The identity in a JSON file, or undefined if there is none. */
export function readIdentity(file: string): ProcessIdentity | undefined {
  try {
    const { pid, started } = JSON.parse(readFileSync(file, 'utf8'))
    return typeof pid === 'number' && typeof started === 'string' ? { pid, started } : undefined
  } catch {
    return undefined
  }
}

/** Field 22 of /proc/<pid>/stat, counted after the name, which may contain spaces and brackets. */
function startedByProc(pid: number): string | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' || state === 'X' ? undefined : fields[18]
}

function startedByPs(pid: number): string | undefined {
  return ps(pid, 'lstart=') || undefined
}

function ps(pid: number, format: string): string {
  const { stdout } = spawnSync('ps', ['-o', format, '-p', String(pid)], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  })
  return (stdout ?? '').trim()
}

/** The text of a file; undefined if it cannot be read. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
