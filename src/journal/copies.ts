/**
 * Copies of the files of a gateway's folder, which is in memory: byte for byte, below DATA_DIR, appended to every
 * second by the writer. Files that were lost in a reboot or removed are restored from them.
 */

import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { createMutex } from '../runtime/mutex.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'
import { growingOf, rotatedName } from './files.ts'
import { type Folder, type Listed, listLineFiles } from './folder.ts'
import { beginningOf, headBytes, headIn } from './head.ts'

interface CopiesOptions {
  /** The shared folder, and its path. */
  readonly folder: Pick<Folder, 'list' | 'open'>
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
/** Bytes compared at the beginning and the end of a copy that an earlier process made. */
const comparedBytes = 4_096

export function createCopies({ folder, path, keptPath, files, same = [] }: CopiesOptions) {
  const at = (name: string): string => join(keptPath, name)
  const withLock = createMutex()
  const piece = Buffer.allocUnsafe(pieceBytes)
  /** By the inode of the original. */
  const copied = new Map<string, Copied>()
  /**
   * Whether copies may exist of files that others have removed. True at first: files may have been removed just before
   * the previous writer was killed, and only that writer knew.
   */
  let isGone = true

  /** Renames the copy of a file to the file's name, and determines how many bytes of the file it has. */
  async function match({ name, inode }: Listed): Promise<Copied> {
    const known = copied.get(inode)
    if (known?.name === name) return known
    const all = await listCopies()
    // By its inode, or by its head if another writer has moved it.
    const now =
      all.find((each) => each.inode === known?.inode)?.name ?? (await nameOfCopy(name, all))
    if (now !== undefined && now !== name) {
      await putAside(name, all)
      await fs.rename(at(now), at(name)).catch(unlessMissing)
    }
    const bytes = await lengthOf(name)
    if (bytes === 0) await beginCopy(name)
    const one = { name, bytes, inode: undefined }
    copied.set(inode, one)
    return one
  }

  async function listCopies(): Promise<readonly Listed[]> {
    const found: Listed[] = []
    for (const name of (await fs.readdir(keptPath).catch(unlessMissing)) ?? []) {
      if (growingOf(name, files) === undefined) continue
      const stat = await fs.stat(at(name), { bigint: true }).catch(unlessMissing)
      if (stat) found.push({ name, inode: String(stat.ino), size: Number(stat.size) })
    }
    return found
  }

  /** Finds the copy of this file by its head: it may have been renamed while no process ran. */
  async function nameOfCopy(name: string, all: readonly Listed[]): Promise<string | undefined> {
    const head = headOf(folder, name)
    if (head === '') return undefined
    for (const copy of all.toSorted((one, other) => other.size - one.size)) {
      if (headIn(await readCopy(copy.name, 0, headBytes)) === head) return copy.name
    }
    return undefined
  }

  /** Reads from a copy; empty if there is none. */
  async function readCopy(name: string, from: number, length: number): Promise<Buffer> {
    const copy = await fs.open(at(name), 'r').catch(unlessMissing)
    if (copy === undefined) return Buffer.alloc(0)
    try {
      const { buffer, bytesRead } = await copy.read(Buffer.alloc(length), 0, length, from)
      return buffer.subarray(0, bytesRead)
    } finally {
      await copy.close()
    }
  }

  /**
   * How many bytes of the file are in the copy of this name, which an earlier process made; 0 if it is a copy of
   * another file.
   */
  async function lengthOf(name: string): Promise<number> {
    const bytes = (await fs.stat(at(name)).catch(unlessMissing))?.size ?? 0
    const file = folder.open(name)
    if (file === undefined) return 0
    try {
      if (bytes > file.size()) return 0
      for (const from of [0, Math.max(0, bytes - comparedBytes)]) {
        const copy = await readCopy(name, from, comparedBytes)
        const own = Buffer.alloc(copy.length)
        file.read(own, from)
        if (!own.equals(copy)) return 0
      }
      return bytes
    } finally {
      file.close()
    }
  }

  /** Makes room for a copy of the file from its beginning. */
  async function beginCopy(name: string): Promise<void> {
    const head = headOf(folder, name)
    const isOfSame = head !== '' && headIn(await readCopy(name, 0, headBytes)) === head
    // The file was reset to an earlier state. Restored later, the lines that only the copy has would count again.
    if (isOfSame) await fs.truncate(at(name))
    else await putAside(name, await listCopies())
  }

  /** Renames the copy of a file that is no longer in the folder, so that its lines are not overwritten. */
  async function putAside(name: string, all: readonly Listed[]): Promise<void> {
    const copy = all.find((each) => each.name === name)
    if (copy === undefined || copy.size === 0 || !files.includes(name)) return
    const to = await freeName(name, all)
    if (to !== undefined) await fs.rename(at(name), at(to)).catch(unlessMissing)
  }

  /** An unused rotated name, or undefined if another process has renamed the copy meanwhile. */
  async function freeName(file: string, all: readonly Listed[]): Promise<string | undefined> {
    const taken = new Set([...all, ...folder.list()].map(({ name }) => name))
    const found = await fs.stat(at(file)).catch(unlessMissing)
    return found && rotatedName(file, Math.floor(found.mtimeMs), taken)
  }

  async function append(listed: Listed, one: Copied, most: number): Promise<number> {
    const file = folder.open(listed.name)
    if (file === undefined) return 0
    // Written at its offset, not appended: two writers then write the same bytes to the same place.
    const copy = await fs.open(at(one.name), constants.O_WRONLY | constants.O_CREAT, 0o600)
    let done = 0
    try {
      // Renamed since it was listed.
      if (file.inode !== listed.inode) return 0
      one.inode = String((await copy.stat({ bigint: true })).ino)
      while (done < most) {
        const bytes = file.read(piece, one.bytes)
        if (bytes === 0) break
        // Fewer bytes if the disk is filled by them; the next write then fails.
        const { bytesWritten } = await copy.write(piece, 0, bytes, one.bytes)
        one.bytes += bytesWritten
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
  async function fill(): Promise<void> {
    const there = listLineFiles(folder, files)
    const heads = new Set(['', ...there.map(({ name }) => headOf(folder, name))])
    const all = await listCopies()
    for (const { name } of all) {
      if (heads.has(headIn(await readCopy(name, 0, headBytes)))) continue
      const to = files.includes(name) ? await freeName(name, all) : name
      if (to === undefined) continue
      if (to !== name) await fs.rename(at(name), at(to)).catch(unlessMissing)
      await copyWhole(at(to), join(path, to))
    }
  }

  /** Copies what one of the folders has lost from the other. */
  async function putBackSame(): Promise<void> {
    for (const name of same) {
      const [one, other] = [at(name), join(path, name)]
      const isMissing = async (file: string) =>
        (await fs.stat(file).catch(unlessMissing)) === undefined
      if (await isMissing(one)) await copyWhole(other, one)
      else if (await isMissing(other)) await copyWhole(one, other)
    }
  }

  async function copyAll(): Promise<void> {
    await fs.mkdir(keptPath, { recursive: true, mode: 0o700 })
    await putBackSame()
    // Rotated ones first: the current files take their names.
    const listed = listLineFiles(folder, files)
    const there = new Set(listed.map(({ inode }) => inode))
    for (const inode of copied.keys()) if (!there.has(inode)) isGone = copied.delete(inode)
    // The file was truncated, or is new with the inode of a removed one.
    for (const { inode, size } of listed) {
      if (size < (copied.get(inode)?.bytes ?? 0)) copied.delete(inode)
    }
    let left = stepBytes
    for (const each of listed) {
      const one = await match(each)
      if (each.size > one.bytes) left -= await append(each, one, left)
    }
    // Restore now, because readers may forget the positions of absent files.
    if (isGone && listed.length > 0) isGone = await fill().then(() => false, isFull)
  }

  return {
    /**
     * Call it every second in the writer. A call during another one, as when the process stops, follows it. Rejects if
     * the disk fails.
     */
    step: (): Promise<void> => withLock(copyAll),
    /** Removes the copy of a file that was removed because its lines are saved. */
    remove(name: string): Promise<void> {
      for (const [inode, one] of copied) if (one.name === name) copied.delete(inode)
      return fs.rm(at(name), { force: true })
    },
    fill,
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

/** The head of a file; empty if it has no complete line or does not exist. */
function headOf(folder: Pick<Folder, 'open'>, name: string): string {
  const file = folder.open(name)
  if (file === undefined) return ''
  try {
    return headIn(beginningOf(file))
  } finally {
    file.close()
  }
}
