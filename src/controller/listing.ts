/** How the files of a folder look from outside, unread. */

import { readdir, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Bytes of a file at most; a resource is a page of text. */
const largestFile = 4 * 1_048_576
/** Files asked about or read at once. */
const atOnce = 64

/** One file. */
export interface Seen {
  /** Changes with its time, size or identity. */
  readonly signature: string
  readonly inode: bigint
  readonly size: bigint
  /** Whether it is a file of a size that is read: reading a pipe would wait for a writer forever. */
  readonly readable: boolean
}

/** One that is not there. */
export const gone: Seen = { signature: 'gone', inode: 0n, size: 0n, readable: false }

/** The `.yaml`, `.yml` and `.json` files of a folder, by path. Throws when it cannot be read. */
export async function listFiles(folder: string): Promise<ReadonlyMap<string, Seen>> {
  const listed = new Map<string, Seen>()
  for (const some of chunks(await resourceFiles(folder))) {
    const seen = await Promise.all(some.map(lookAt))
    for (const [index, path] of some.entries()) listed.set(path, seen[index] as Seen)
  }
  return listed
}

/** A link that leads nowhere must not blind the look to all the other files. */
async function lookAt(path: string): Promise<Seen> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  if (found === undefined) return { ...gone, signature: 'unreadable' }
  const { mtimeNs, size, ino } = found
  const readable = found.isFile() && size <= largestFile
  return { signature: `${mtimeNs} ${size} ${ino} ${readable}`, inode: ino, size, readable }
}

/**
 * Hidden files and folders are left out (editors' and mounted ConfigMaps' own). Links to
 * folders are followed, since a ConfigMap mounts its subfolders so; each folder is read once.
 */
async function resourceFiles(folder: string, read = new Set<string>()): Promise<readonly string[]> {
  const place = await realpath(folder)
  if (read.has(place)) return []
  read.add(place)
  const files: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory() || (entry.isSymbolicLink() && (await isFolder(path)))) {
      files.push(...(await resourceFiles(path, read)))
    } else if (/\.(ya?ml|json)$/.test(entry.name)) {
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

/** Items in groups that are worked at together. */
export function* chunks<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += atOnce) yield items.slice(at, at + atOnce)
}
