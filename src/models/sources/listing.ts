/** The files of a folder and their state, without their content. */

import { readdir, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** The largest file in bytes; a resource is about a page of text. */
const maxFileBytes = 4 * 1_048_576
/** Files checked or read concurrently. */
const atOnce = 64

/** The names of files that are read. */
export const resourceFile = /\.(ya?ml|json)$/i

/** One file. */
export interface Seen {
  /** Changes with its time, size or identity. */
  readonly signature: string
  readonly inode: bigint
  readonly size: bigint
  /**
   * Whether it is a regular file of acceptable size: reading a pipe would wait for a writer
   * forever.
   */
  readonly readable: boolean
}

/** A missing file. */
export const gone: Seen = { signature: 'gone', inode: 0n, size: 0n, readable: false }

/** The `.yaml`, `.yml` and `.json` files of a folder, by path. Throws if it cannot be read. */
export async function listFiles(folder: string): Promise<ReadonlyMap<string, Seen>> {
  const listed = new Map<string, Seen>()
  for (const some of chunks(await resourceFiles(folder))) {
    const seen = await Promise.all(some.map(stateOf))
    for (const [index, path] of some.entries()) listed.set(path, seen[index] as Seen)
  }
  return listed
}

/** A broken link must not hide all the other files. */
async function stateOf(path: string): Promise<Seen> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  if (found === undefined) return { ...gone, signature: 'unreadable' }
  const { mtimeNs, size, ino } = found
  const readable = found.isFile() && size <= maxFileBytes
  return { signature: `${mtimeNs} ${size} ${ino} ${readable}`, inode: ino, size, readable }
}

/**
 * Skips hidden files and folders (of editors and of mounted ConfigMaps). Follows links to folders,
 * because mounted ConfigMaps use them for subfolders; reads each folder once.
 */
async function resourceFiles(folder: string, read = new Set<string>()): Promise<readonly string[]> {
  const folderPath = await realpath(folder)
  if (read.has(folderPath)) return []
  read.add(folderPath)
  const files: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory() || (entry.isSymbolicLink() && (await isFolder(path)))) {
      files.push(...(await resourceFiles(path, read)))
    } else if (resourceFile.test(entry.name)) {
      files.push(path)
    }
  }
  return files
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

/** Splits items into groups that are processed together. */
export function* chunks<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += atOnce) yield items.slice(at, at + atOnce)
}
