import { closeSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { logMode, openLogFile } from './log-file.ts'

const warning = 40

/**
 * Writes the service's output to `file`, overwriting it, and shows warnings, errors and everything
 * that is not a log entry on the terminal.
 */
export function createServiceLog(file: string, show: (line: string) => void) {
  let last = ''
  let written = Promise.resolve()
  closeSync(openLogFile(file))
  return {
    write(line: string): void {
      last = line
      // A full disk must not end the service; important lines are also on the terminal.
      written = written.then(() => appendFile(file, `${line}\n`, { mode: logMode })).catch(() => {})
      if (levelOf(line) >= warning) show(`service: ${line}`)
    },
    /** Its last line, for the message that it ended. */
    lastLine: (): string => `${last} (${file})`,
  }
}

/** The number of a pino entry's level; other text counts as a warning. */
function levelOf(line: string): number {
  try {
    const entry: unknown = JSON.parse(line)
    if (typeof entry === 'object' && entry !== null && 'level' in entry) return Number(entry.level)
  } catch {
    // Not JSON: a stack trace or a message of Node itself.
  }
  return warning
}
