import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { openHeadFile } from '../../src/journal/head-file.ts'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import { type JournalLine, parseJournalLine } from '../../src/journal/journal-line.ts'

/** Reads the files of a USAGE_JOURNAL, current and rotated. */
export interface Lines {
  /** Lines of all files of one writer, in the order of each. */
  ofScript(): readonly JournalLine[]
  ofEnvoy(): readonly JournalLine[]
  /** Lines of requests that have ended, of both writers. */
  ended(): readonly JournalLine[]
  /** Number of unreadable lines, in all files. */
  torn(): number
  /** Number of lines that the script reports as not written. */
  failed(): number
  /** The names of the files of both writers. */
  files(): readonly string[]
}

export function linesOf(usageJournal: string): Lines {
  const files = journalFilesOf(usageJournal)
  const folder = dirname(usageJournal)
  const namesOf = (first: string): readonly string[] => {
    const name = basename(first)
    if (!existsSync(folder)) return []
    return readdirSync(folder).filter(
      (each) => each === name || (each.startsWith(`${name}.`) && /\.\d+$/.test(each)),
    )
  }
  const textsOf = (first: string): readonly string[] =>
    namesOf(first)
      .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
      .filter((line) => line !== '')
  const read = (first: string) => textsOf(first).flatMap((text) => parseJournalLine(text) ?? [])
  const both = [files.script, files.envoy]

  return {
    ofScript: () => read(files.script),
    ofEnvoy: () => read(files.envoy),
    ended: () => both.flatMap(read).filter(({ state }) => state === 'ended'),
    torn: () => both.flatMap(textsOf).filter((text) => parseJournalLine(text) === undefined).length,
    failed() {
      const head = openHeadFile(files.head)
      try {
        return head.read().failed
      } finally {
        head.close()
      }
    },
    files: () => both.flatMap(namesOf),
  }
}

/** The ids of their requests. */
export function idsOf(lines: readonly JournalLine[]): readonly string[] {
  return lines.map(({ usage }) => usage.response.id)
}
