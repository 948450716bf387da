import { closeSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { createMutex } from '../src/runtime/mutex.ts'
import { logMode, openLogFile } from './log-file.ts'

const warning = 40
const error = 50

/**
 * Writes the service's output to `file`, overwriting it, and shows on the terminal warnings and errors, a line of text
 * each, and all output that is not a log entry.
 */
export function createServiceLog(file: string, show: (line: string) => void) {
  let last = ''
  const withLock = createMutex()
  closeSync(openLogFile(file))
  return {
    write(line: string): void {
      // A full disk must not end the service; important lines are also on the terminal.
      withLock(() => appendFile(file, `${line}\n`, { mode: logMode })).catch(() => {})
      const entry = readEntry(line)
      if (!atStop.has(entry?.code)) last = line
      if (entry === undefined || Number(entry.level) >= warning) show(asSentence(line))
    },
    /** Its last line but those of every stop, for the message that it ended. */
    lastLine: (): string => `${asSentence(last)} (${file})`,
  }
}

/** Codes of what it logs whenever it ends. */
const atStop: ReadonlySet<unknown> = new Set(['draining', 'stopped'])

/** Fields that pino writes into every entry. */
const common = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'network'])
/** Maximum length of one value: a stack or a list would fill the terminal. */
const maxLength = 300

/** Converts a line of the log to a line of text for the terminal. */
function asSentence(line: string): string {
  const entry = readEntry(line)
  // A stack trace or a message of Node itself.
  if (entry === undefined) return `service: ${line}`
  const details = Object.entries(entry).flatMap(([name, value]) =>
    common.has(name) ? [] : `${name}: ${shorten(value)}`,
  )
  const level = Number(entry.level)
  const kind = level < warning ? 'service' : level < error ? 'Warning' : 'Error'
  return `${kind}: ${shorten(entry.msg)}${details.length > 0 ? ` (${details.join(', ')})` : ''}`
}

function readEntry(line: string): Record<string, unknown> | undefined {
  try {
    const entry: unknown = JSON.parse(line)
    const isEntry = typeof entry === 'object' && entry !== null && 'level' in entry
    return isEntry ? (entry as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** An error by its message. Control characters would act on the terminal. */
function shorten(value: unknown): string {
  const isError = typeof value === 'object' && value !== null && 'message' in value
  const told = isError ? value.message : value
  const text = typeof told === 'string' ? told : (JSON.stringify(told) ?? '')
  const clean = text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
  return clean.length > maxLength ? `${clean.slice(0, maxLength)}…` : clean
}
