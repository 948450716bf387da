/** The files of a folder and their state, without their content. */

import { readdir, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'

/** The largest file in bytes; a resource is about a page of text. */
const maxFileBytes = 4 * 1_048_576
/** Files checked or read concurrently. */
const atOnce = 64

/** The names of files that are read. */
export const resourceFile = /\.(ya?ml|json)$/i

/** A file, as listed. */
export interface FileState {
  /** Changes with its times, size or identity. A program can set the time of a write, but not that of a change. */
  readonly signature: string
  readonly inode: bigint
  readonly size: bigint
  /** Whether it is a regular file of acceptable size: reading a pipe would wait for a writer forever. */
  readonly readable: boolean
}

/** A missing file. */
export const missingFile: FileState = { signature: 'gone', inode: 0n, size: 0n, readable: false }

/** A file that is listed, or is below a broken link. */
const unreadable: FileState = { ...missingFile, signature: 'unreadable' }

/**
 * The `.yaml`, `.yml` and `.json` files of a folder, by path. Those of `known` below a link that leads nowhere count as
 * unreadable, not as removed. Throws if the folder cannot be read.
 */
export async function listFiles(
  folder: string,
  known: Iterable<string> = [],
): Promise<ReadonlyMap<string, FileState>> {
  const listed = new Map<string, FileState>()
  const { files, broken } = await resourceFiles(folder)
  for (const some of batchesOf(files)) {
    const seen = await Promise.all(some.map(stateOf))
    for (const [index, path] of some.entries()) listed.set(path, seen[index] as FileState)
  }
  if (broken.length === 0) return listed
  for (const path of known) {
    const isBelow = broken.some((link) => path.startsWith(`${link}${sep}`))
    if (isBelow && !listed.has(path)) listed.set(path, unreadable)
  }
  return listed
}

/** A broken link must not hide all the other files. */
async function stateOf(path: string): Promise<FileState> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  if (found === undefined) return unreadable
  const { mtimeNs, ctimeNs, size, ino } = found
  const readable = found.isFile() && size <= maxFileBytes
  const signature = `${mtimeNs} ${ctimeNs} ${size} ${ino} ${readable}`
  return { signature, inode: ino, size, readable }
}

/**
 * Skips hidden files and folders (of editors and of mounted ConfigMaps). Follows links to folders,
 * because mounted ConfigMaps use them for subfolders; reads each folder once.
 */
async function resourceFiles(folder: string, found = emptyListing()): Promise<Listing> {
  const folderPath = await realpath(folder)
  if (found.read.has(folderPath)) return found
  found.read.add(folderPath)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue
    const path = join(folder, entry.name)
    const leadsTo = entry.isSymbolicLink() ? await kindOf(path) : undefined
    if (leadsTo === 'nothing') found.broken.push(path)
    if (entry.isDirectory() || leadsTo === 'folder') await resourceFiles(path, found)
    else if (resourceFile.test(entry.name)) found.files.push(path)
  }
  return found
}

interface Listing {
  readonly files: string[]
  /** Links that lead nowhere. */
  readonly broken: string[]
  /** The folders that were read. */
  readonly read: Set<string>
}

const emptyListing = (): Listing => ({ files: [], broken: [], read: new Set() })

function kindOf(path: string): Promise<'folder' | 'file' | 'nothing'> {
  return stat(path).then(
    (found) => (found.isDirectory() ? 'folder' : 'file'),
    () => 'nothing',
  )
}

/** Splits items into groups that are processed together. */
export function* batchesOf<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += atOnce) yield items.slice(at, at + atOnce)
}
