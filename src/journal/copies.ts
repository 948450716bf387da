/**
 * A copy of each file of a gateway's folder, which is in memory: byte for byte, below DATA_DIR, appended to
 * each second by the writer. What a restart of the machine has emptied is filled from it.
 */

import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { type Folder, type Listed, openFolder } from './folder.ts'
import { headBytes, headIn } from './head.ts'

export interface CopiesOptions {
  /** The folder that gateway and service share, and its path. */
  readonly folder: Pick<Folder, 'list' | 'open'>
  readonly path: string
  /** Where the copies are: another folder. */
  readonly keptPath: string
  /** The files that grow; renamed ones have a dot and milliseconds since the epoch behind it. */
  readonly files: readonly string[]
}

export type Copies = ReturnType<typeof createCopies>

interface Copied {
  name: string
  bytes: number
}

const pieceBytes = 65_536
/** Of all files in one step, so that the next one comes in time. */
const stepBytes = 64 * 1_048_576
/** What is compared at the end of a copy that an earlier process has made. */
const comparedBytes = 4_096

export function createCopies({ folder, path, keptPath, files }: CopiesOptions) {
  const copies = openFolder(keptPath)
  const at = (name: string): string => join(keptPath, name)
  const piece = Buffer.allocUnsafe(pieceBytes)
  /** By the inodes of the files. */
  const copied = new Map<string, Copied>()

  function isOurs({ name }: Pick<Listed, 'name'>): boolean {
    return files.some((file) => name === file || isRenamed(name, file))
  }

  /** Has the copy of a file go by its name, and finds out how far it has come. */
  async function match({ name, inode }: Listed): Promise<Copied> {
    const known = copied.get(inode)
    if (known?.name === name) return known
    const one = known ?? { name, bytes: 0 }
    if (known === undefined) {
      one.bytes = await lengthOf(name)
      if (one.bytes === 0) await putAside(name)
    } else {
      await putAside(name)
      await fs.rename(at(known.name), at(name)).catch(unlessMissing)
      one.name = name
    }
    copied.set(inode, one)
    return one
  }

  /** How many bytes of the file the copy of this name has, which an earlier process has made; 0: it is another one's. */
  async function lengthOf(name: string): Promise<number> {
    const [file, copy] = [folder.open(name), copies.open(name)]
    try {
      const bytes = copy?.size() ?? 0
      if (file === undefined || copy === undefined || bytes > file.size()) return 0
      for (const from of [0, Math.max(0, bytes - comparedBytes)]) {
        const length = Math.min(comparedBytes, bytes - from)
        const [one, other] = [Buffer.alloc(length), Buffer.alloc(length)]
        file.read(one, from)
        copy.read(other, from)
        if (!one.equals(other)) return 0
      }
      return bytes
    } finally {
      file?.close()
      copy?.close()
    }
  }

  /** The copy of a file that is not in the folder any more keeps its lines under another name. */
  async function putAside(name: string): Promise<void> {
    const [copy] = copies.list().filter((each) => each.name === name)
    const file = files.find((each) => name === each)
    if (copy === undefined || copy.size === 0 || file === undefined) return
    await fs.rename(at(name), at(await freeName(file)))
  }

  async function freeName(file: string): Promise<string> {
    const taken = new Set([...copies.list(), ...folder.list()].map(({ name }) => name))
    let ms = Math.floor((await fs.stat(at(file))).mtimeMs)
    while (taken.has(`${file}.${ms}`)) ms += 1
    return `${file}.${ms}`
  }

  async function append(listed: Listed, one: Copied, most: number): Promise<number> {
    const file = folder.open(listed.name)
    if (file === undefined) return 0
    // At its own place, never at the end: of two writers each writes the same there.
    const copy = await fs.open(at(one.name), constants.O_WRONLY | constants.O_CREAT, 0o600)
    let done = 0
    try {
      // It was renamed since it was listed.
      if (file.inode !== listed.inode) return 0
      while (done < most) {
        const bytes = file.read(piece, one.bytes)
        if (bytes === 0) break
        await copy.write(piece, 0, bytes, one.bytes)
        one.bytes += bytes
        done += bytes
      }
      return done
    } finally {
      file.close()
      await copy.close()
    }
  }

  return {
    /** To be called each second by the writer, one call at a time. Rejects if the disk does not take it. */
    async step(): Promise<void> {
      await fs.mkdir(keptPath, { recursive: true, mode: 0o700 })
      const listed = folder.list().filter(isOurs)
      const there = new Set(listed.map(({ inode }) => inode))
      for (const inode of copied.keys()) if (!there.has(inode)) copied.delete(inode)
      // Renamed ones first: the others take their names.
      const inOrder = listed.toSorted((a, b) => b.name.length - a.name.length)
      let left = stepBytes
      for (const each of inOrder) {
        const one = await match(each)
        if (each.size > one.bytes) left -= await append(each, one, left)
      }
    },
    /** A file was removed whose lines are saved: its copy is needed no more. */
    remove: (name: string): Promise<void> => fs.rm(at(name), { force: true }),
    /**
     * Puts copies of files into the folder that are not there any more, as renamed ones: another file may be in
     * their place. To be called at a start, before files are read; others may do it at once.
     */
    async fill(): Promise<void> {
      const heads = new Set(headsIn(folder, isOurs).values())
      for (const [name, head] of headsIn(copies, isOurs)) {
        if (head === '' || heads.has(head)) continue
        const to = files.includes(name) ? await freeName(name) : name
        if (to !== name) await fs.rename(at(name), at(to)).catch(unlessMissing)
        const draft = join(path, `${to}.${process.pid}.tmp`)
        try {
          await fs.copyFile(at(to), draft)
          await fs.link(draft, join(path, to))
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException
          // Another process has put it there.
          if (code !== 'EEXIST' && code !== 'ENOENT') throw error
        } finally {
          await fs.rm(draft, { force: true })
        }
      }
    },
  }
}

function isRenamed(name: string, file: string): boolean {
  return name.startsWith(`${file}.`) && /^\d{13}$/.test(name.slice(file.length + 1))
}

/** What identifies each file. */
function headsIn(
  folder: Pick<Folder, 'list' | 'open'>,
  isOurs: (file: Listed) => boolean,
): ReadonlyMap<string, string> {
  const heads = new Map<string, string>()
  const begin = Buffer.allocUnsafe(headBytes)
  for (const { name } of folder.list().filter(isOurs)) {
    const file = folder.open(name)
    if (file === undefined) continue
    heads.set(name, headIn(begin.subarray(0, file.read(begin, 0))))
    file.close()
  }
  return heads
}

function unlessMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
