/** The files of a usage journal: the one that Envoy writes, and earlier ones that were renamed. */

import { renameSync, statSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { notJournals } from './position.ts'

export interface ListedFile {
  readonly path: string
  readonly inode: string
  readonly size: number
  readonly writtenAt: number
}

/** The most files of one journal that are considered; the newest. */
const maxFiles = 64

/**
 * The journal's files, oldest first, the one that Envoy writes last. Includes every file whose name
 * begins with the journal's, whoever renamed it. Empty if the folder does not exist yet.
 */
export async function listJournal(path: string): Promise<readonly ListedFile[]> {
  const folder = dirname(path)
  const name = basename(path)
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const ours = names.filter(
    (each) =>
      /^([.-]|$)/.test(each.startsWith(name) ? each.slice(name.length) : 'other') &&
      !notJournals.test(each),
  )
  const found = await Promise.all(ours.map((each) => statOf(join(folder, each))))
  return found
    .filter((file) => file !== undefined)
    .sort((a, b) => rank(a, path) - rank(b, path) || a.writtenAt - b.writtenAt)
    .slice(-maxFiles)
}

function rank(file: ListedFile, path: string): number {
  return file.path === path ? 1 : 0
}

/** undefined if it has been renamed or removed meanwhile, or is not a file. */
async function statOf(path: string): Promise<ListedFile | undefined> {
  try {
    const found = await stat(path, { bigint: true })
    if (!found.isFile()) return undefined
    return {
      path,
      inode: String(found.ino),
      size: Number(found.size),
      writtenAt: Number(found.mtimeNs) / 1_000_000,
    }
  } catch {
    return undefined
  }
}

/** Whether `rotate` named the file, so that we may remove it. */
export function isRotated({ path }: ListedFile, journal: string): boolean {
  return path.startsWith(journal) && /^\.\d{13}$/.test(path.slice(journal.length))
}

/**
 * Renames the file that Envoy writes, unless another process just has. Envoy continues to write to
 * it.
 */
export function rotate(file: ListedFile, now: number): void {
  // Envoy may have created a new file under this name since the listing. Synchronous, to leave it
  // hardly any time between the check and the rename.
  try {
    const { ino } = statSync(file.path, { bigint: true })
    if (String(ino) === file.inode) renameSync(file.path, `${file.path}.${now}`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** Removes a file, unless another process just has. */
export async function remove({ path }: ListedFile): Promise<void> {
  await rm(path, { force: true })
}
