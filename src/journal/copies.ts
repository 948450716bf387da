/**
 * Copies of the files of a gateway's folder, which is in memory: byte for byte, below DATA_DIR, appended to every
 * second by the writer. Files that were lost in a reboot or removed are restored from them.
 */

import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { createMutex } from '../runtime/mutex.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'
import { createCopyFolder, headOfFile } from './copy-folder.ts'
import { type JournalFolder, type ListedFile, listLineFiles } from './journal-folder.ts'

interface CopiesOptions {
  /** The shared folder, and its path. */
  readonly folder: Pick<JournalFolder, 'list' | 'open'>
  readonly path: string
  /** Path of the copies, in another folder. */
  readonly keptPath: string
  /** Names of small files that are the same in both folders. */
  readonly same?: readonly string[]
  /** Names of the current files; rotated ones have a dot and milliseconds since the epoch appended. */
  readonly files: readonly string[]
}

export type Copies = ReturnType<typeof createCopies>

interface Copied {
  readonly name: string
  bytes: number
  /** The inode of the copy, once it was written to. */
  inode: string | undefined
}

const pieceBytes = 65_536
/** Bytes that one step copies at most, so that the next one starts in time. */
const stepBytes = 64 * 1_048_576

export function createCopies({ folder, path, keptPath, files, same = [] }: CopiesOptions) {
  const copies = createCopyFolder(folder, keptPath, files)
  const withLock = createMutex()
  const piece = Buffer.allocUnsafe(pieceBytes)
  /** By the inode of the original. */
  const copied = new Map<string, Copied>()
  /**
   * Whether copies may exist of files that others have removed. True at first: files may have been removed just before
   * the previous writer was killed, and only that writer knew.
   */
  let mayLackFiles = true

  /** Renames the copy of a file to the file's name, and determines how many bytes of the file it has. */
  async function copyOf({ name, inode }: ListedFile): Promise<Copied> {
    const known = copied.get(inode)
    if (known?.name === name) return known
    const all = await copies.list()
    // By its inode, or by its head if another writer has moved it.
    const found = all.find((each) => each.inode === known?.inode)?.name
    const current = found ?? (await copies.nameOfCopy(name, all))
    if (current !== undefined && current !== name) {
      await copies.putAside(name, all)
      await copies.rename(current, name)
    }
    const bytes = await copies.lengthOf(name)
    if (bytes === 0) await copies.begin(name)
    const copy = { name, bytes, inode: undefined }
    copied.set(inode, copy)
    return copy
  }

  /** Appends new bytes of the file, at most about `most`; returns how many. */
  async function append(listed: ListedFile, to: Copied, most: number): Promise<number> {
    const file = folder.open(listed.name)
    if (file === undefined) return 0
    // Written at its offset, not appended: two writers then write the same bytes to the same place.
    const copy = await fs.open(
      copies.pathOf(to.name),
      constants.O_WRONLY | constants.O_CREAT,
      0o600,
    )
    let done = 0
    try {
      // Renamed since it was listed.
      if (file.inode !== listed.inode) return 0
      to.inode = String((await copy.stat({ bigint: true })).ino)
      while (done < most) {
        const bytes = file.read(piece, to.bytes)
        if (bytes === 0) break
        // Fewer bytes if the disk is filled by them; the next write then fails.
        const { bytesWritten } = await copy.write(piece, 0, bytes, to.bytes)
        to.bytes += bytesWritten
        done += bytesWritten
      }
      return done
    } finally {
      file.close()
      await copy.close()
    }
  }

  /**
   * Restores missing files from their copies, under rotated names, because another file may have taken theirs. Call it
   * at start, before files are read; several processes may do so at once.
   */
  async function restore(): Promise<void> {
    const listed = listLineFiles(folder, files)
    const heads = new Set(['', ...listed.map(({ name }) => headOfFile(folder, name))])
    const all = await copies.list()
    for (const { name } of all) {
      if (heads.has(await copies.headOf(name))) continue
      const to = files.includes(name) ? await copies.freeName(name, all) : name
      if (to === undefined) continue
      if (to !== name) await copies.rename(name, to)
      await copyWhole(copies.pathOf(to), join(path, to))
    }
  }

  /** Copies what one of the folders has lost from the other. */
  async function restoreSame(): Promise<void> {
    for (const name of same) {
      const [one, other] = [copies.pathOf(name), join(path, name)]
      const isMissing = async (file: string) =>
        (await fs.stat(file).catch(unlessMissing)) === undefined
      if (await isMissing(one)) await copyWhole(other, one)
      else if (await isMissing(other)) await copyWhole(one, other)
    }
  }

  /** Forgets files that were removed, truncated, or replaced by one with the same inode. */
  function forgetLost(listed: readonly ListedFile[]): void {
    const sizes = new Map(listed.map(({ inode, size }) => [inode, size]))
    for (const [inode, { bytes }] of copied) {
      const size = sizes.get(inode)
      if (size === undefined) mayLackFiles = true
      if (size === undefined || size < bytes) copied.delete(inode)
    }
  }

  async function copyAll(): Promise<void> {
    await fs.mkdir(keptPath, { recursive: true, mode: 0o700 })
    await restoreSame()
    // Rotated ones first: the current files take their names.
    const listed = listLineFiles(folder, files)
    forgetLost(listed)
    let left = stepBytes
    for (const each of listed) {
      const copy = await copyOf(each)
      if (each.size > copy.bytes) left -= await append(each, copy, left)
    }
    // Restored now, because readers may forget the positions of absent files.
    if (mayLackFiles && listed.length > 0) mayLackFiles = await restore().then(() => false, isFull)
  }

  return {
    /**
     * Call it every second in the writer. A call during another one, as when the process stops, follows it. Rejects if
     * the disk fails.
     */
    step: (): Promise<void> => withLock(copyAll),
    /** Removes the copy of a file that was removed because its lines are saved. */
    remove(name: string): Promise<void> {
      for (const [inode, copy] of copied) if (copy.name === name) copied.delete(inode)
      return fs.rm(copies.pathOf(name), { force: true })
    },
    restore,
  }
}

/** Creates a file as a copy of another one, unless it exists or the other does not. */
async function copyWhole(from: string, to: string): Promise<void> {
  const draft = `${to}.${process.pid}.tmp`
  try {
    await fs.copyFile(from, draft)
    await fs.link(draft, to)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Another process has made it, or moved the other one.
    if (code !== 'EEXIST' && code !== 'ENOENT') throw error
  } finally {
    await fs.rm(draft, { force: true })
  }
}

/** True if there is no space for a file, which the next step tries again; throws any other error. */
function isFull(error: NodeJS.ErrnoException): true {
  if (error.code !== 'ENOSPC') throw error
  return true
}
