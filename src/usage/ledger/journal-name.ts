/** The name of a journal in the ledger: a small file beside the journal, and a copy below DATA_DIR. */

import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { keptJournalOf, ledgerNameOf } from '../../journal/journal-files.ts'
import { readSmallText } from '../../journal/small-file.ts'
import { replaceFileSync } from '../../runtime/replace-file.ts'

const form = /^[0-9a-f]{16}$/

/**
 * The name of the journal at this path: equal for every process that sees the folder or its copy, and different for
 * another gateway's journal, which may have the same path on its own machine. The first caller creates it, with its
 * folders if missing. Throws if it cannot be written.
 */
export function ensureJournalName(path: string, dataDir?: string): string {
  const [beside, kept = beside] = filesOf(path, dataDir)
  // A folder in memory is empty after a reboot.
  const name = readName(kept) ?? readName(beside) ?? randomBytes(8).toString('hex')
  const known = create(kept, name)
  if (beside !== kept) create(beside, known)
  return known
}

/** The name of the journal at this path, if a service has ever read it. Writes nothing. */
export function findJournalName(path: string, dataDir?: string): string | undefined {
  const [beside, kept = beside] = filesOf(path, dataDir)
  return readName(beside) ?? readName(kept)
}

/** The folder below DATA_DIR with copies of its files, or undefined if there is none or it is another journal's. */
export function findKeptFolder(path: string, dataDir: string): string | undefined {
  const [beside, kept = beside] = filesOf(path, dataDir)
  const name = readName(kept)
  const isOurs = name !== undefined && (readName(beside) ?? name) === name
  return isOurs && kept !== beside ? dirname(kept) : undefined
}

function filesOf(path: string, dataDir: string | undefined) {
  const beside = ledgerNameOf(path)
  if (dataDir === undefined) return [beside] as const
  return [beside, join(keptJournalOf(path, dataDir).folder, basename(beside))] as const
}

/** Writes the name, unless there is one; returns the one that is there. */
function create(file: string, name: string): string {
  const known = readName(file)
  if (known !== undefined) return known
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  replaceFileSync(file, name, { mode: 0o600, onlyIfAbsent: true, isDurable: true })
  const made = readName(file)
  if (made === undefined)
    throw new Error(`${file} does not contain the name of a journal; remove it`)
  return made
}

function readName(file: string): string | undefined {
  try {
    const name = readSmallText(file).trim()
    return form.test(name) ? name : undefined
  } catch {
    return undefined
  }
}
