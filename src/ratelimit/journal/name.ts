/** The name of a usage journal among the processes that share counters: a small file beside it. */

import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const form = /^[0-9a-f]{16}$/

/**
 * The name of the journal at this path: the same for every process that sees the file, and
 * different for another gateway's journal, which may have the same path on its own machine. The
 * first caller creates it, with its folder if missing. Throws if it cannot be written.
 */
export function nameJournal(path: string): string {
  const file = fileOf(path)
  const known = readName(file)
  if (known !== undefined) return known
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomBytes(8).toString('hex')}`
  writeFileSync(draft, randomBytes(8).toString('hex'), { mode: 0o600 })
  try {
    // A link never replaces a file: of concurrent callers exactly one creates it, complete.
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
  const name = readName(file)
  if (name === undefined)
    throw new Error(`${file} does not contain the name of a journal; remove it`)
  return name
}

/** The name of the journal at this path, if a service has ever read it. Writes nothing. */
export function findJournalName(path: string): string | undefined {
  return readName(fileOf(path))
}

function fileOf(path: string): string {
  return `${path}.name`
}

function readName(file: string): string | undefined {
  try {
    const name = readFileSync(file, 'utf8').trim()
    return form.test(name) ? name : undefined
  } catch {
    return undefined
  }
}
