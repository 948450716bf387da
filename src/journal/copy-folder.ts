/** The folder with copies of a gateway's files, and which copy is of which file: files are renamed, and reset. */

import * as fs from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from '../runtime/unless-missing.ts'
import { fileHeadOf, headBytes, readFileStart } from './file-head.ts'
import { baseNameOf, rotatedName } from './journal-files.ts'
import type { JournalFolder, ListedFile } from './journal-folder.ts'

/** Bytes compared at the beginning and the end of a copy that an earlier process made. */
const comparedBytes = 4_096

/** `folder`: that of the originals; `files`: the names of the current ones. */
export function createCopyFolder(
  folder: Pick<JournalFolder, 'list' | 'open'>,
  path: string,
  files: readonly string[],
) {
  const pathOf = (name: string): string => join(path, name)

  async function list(): Promise<readonly ListedFile[]> {
    const found: ListedFile[] = []
    for (const name of (await fs.readdir(path).catch(unlessMissing)) ?? []) {
      if (baseNameOf(name, files) === undefined) continue
      const stat = await fs.stat(pathOf(name), { bigint: true }).catch(unlessMissing)
      if (stat) found.push({ name, inode: String(stat.ino), size: Number(stat.size) })
    }
    return found
  }

  /** Reads from a copy; empty if there is none. */
  async function read(name: string, from: number, length: number): Promise<Buffer> {
    const copy = await fs.open(pathOf(name), 'r').catch(unlessMissing)
    if (copy === undefined) return Buffer.alloc(0)
    try {
      const { buffer, bytesRead } = await copy.read(Buffer.alloc(length), 0, length, from)
      return buffer.subarray(0, bytesRead)
    } finally {
      await copy.close()
    }
  }

  /** The head of a copy; empty if it has no complete line. */
  async function headOf(name: string): Promise<string> {
    return fileHeadOf(await read(name, 0, headBytes))
  }

  async function rename(from: string, to: string): Promise<void> {
    await fs.rename(pathOf(from), pathOf(to)).catch(unlessMissing)
  }

  /** An unused rotated name, or undefined if another process has renamed the copy meanwhile. */
  async function freeName(file: string, all: readonly ListedFile[]): Promise<string | undefined> {
    const taken = new Set([...all, ...folder.list()].map(({ name }) => name))
    const found = await fs.stat(pathOf(file)).catch(unlessMissing)
    return found && rotatedName(file, Math.floor(found.mtimeMs), taken)
  }

  /** Renames the copy of a file that is no longer in the folder, so that its lines are not overwritten. */
  async function putAside(name: string, all: readonly ListedFile[]): Promise<void> {
    const copy = all.find((each) => each.name === name)
    if (copy === undefined || copy.size === 0 || !files.includes(name)) return
    const to = await freeName(name, all)
    if (to !== undefined) await rename(name, to)
  }

  return {
    pathOf,
    list,
    headOf,
    rename,
    freeName,
    putAside,
    /** Finds the copy of this file by its head: it may have been renamed while no process ran. */
    async nameOfCopy(name: string, all: readonly ListedFile[]): Promise<string | undefined> {
      const head = headOfFile(folder, name)
      if (head === '') return undefined
      for (const copy of all.toSorted((one, other) => other.size - one.size)) {
        if ((await headOf(copy.name)) === head) return copy.name
      }
      return undefined
    },
    /**
     * How many bytes of the file are in the copy of this name, which an earlier process made; 0 if it is a copy of
     * another file.
     */
    async lengthOf(name: string): Promise<number> {
      const bytes = (await fs.stat(pathOf(name)).catch(unlessMissing))?.size ?? 0
      const file = folder.open(name)
      if (file === undefined) return 0
      try {
        if (bytes > file.size()) return 0
        for (const from of [0, Math.max(0, bytes - comparedBytes)]) {
          const copy = await read(name, from, comparedBytes)
          const own = Buffer.alloc(copy.length)
          file.read(own, from)
          if (!own.equals(copy)) return 0
        }
        return bytes
      } finally {
        file.close()
      }
    },
    /** Makes room for a copy of the file from its beginning. */
    async begin(name: string): Promise<void> {
      const head = headOfFile(folder, name)
      const isOfSame = head !== '' && (await headOf(name)) === head
      // The file was reset to an earlier state. Restored later, the lines that only the copy has would count again.
      if (isOfSame) await fs.truncate(pathOf(name))
      else await putAside(name, await list())
    },
  }
}

/** The head of a file; empty if it has no complete line or does not exist. */
export function headOfFile(folder: Pick<JournalFolder, 'open'>, name: string): string {
  const file = folder.open(name)
  if (file === undefined) return ''
  try {
    return fileHeadOf(readFileStart(file))
  } finally {
    file.close()
  }
}
