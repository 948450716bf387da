import { mkdirSync, writeFileSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { dirname } from 'node:path'

const warning = 40

/**
 * Keeps what the service says in `file`, written anew, and shows on the terminal what a person
 * should see there: warnings, errors, and whatever is no log entry.
 */
export function createServiceLog(file: string, show: (line: string) => void) {
  let last = ''
  let written = Promise.resolve()
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, '')
  return {
    write(line: string): void {
      last = line
      // A full disk must not end the service; what it said is on the terminal if it matters.
      written = written.then(() => appendFile(file, `${line}\n`)).catch(() => {})
      if (levelOf(line) >= warning) show(`service: ${line}`)
    },
    /** What it said last, for the message that it ended. */
    lastLine: (): string => `${last} (${file})`,
  }
}

/** The number of a pino entry's level; no entry at all is as good as a warning. */
function levelOf(line: string): number {
  try {
    const entry: unknown = JSON.parse(line)
    if (typeof entry === 'object' && entry !== null && 'level' in entry) return Number(entry.level)
  } catch {
    // No JSON: a stack trace, a message of Node itself.
  }
  return warning
}
