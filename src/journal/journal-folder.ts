/**
 * The folder that a gateway and its service processes share, with the files of lines. It is in memory if possible.
 * Calls are synchronous and wait for the file system only, so that a Check can read the end of a file before it
 * decides.
 */

import * as fs from 'node:fs'
import { join } from 'node:path'
import { replaceFileSync } from '../runtime/replace-file.ts'
import { baseNameOf } from './journal-files.ts'
import { createFile, type FileMode } from './prepare-folder.ts'
import { openToRead, readSmallText } from './small-file.ts'

export interface ListedFile {
  readonly name: string
  readonly inode: string
  readonly size: number
}

/** A current or rotated file of lines. */
export interface LineFile extends ListedFile {
  /** Its base name, which the current file has. */
  readonly growing: string
  /** Whether it still has its base name. */
  readonly isCurrent: boolean
}

/** Lists the current and rotated files of these base names: in this order, and per base name the oldest first. */
export function listLineFiles(
  folder: Pick<JournalFolder, 'list'>,
  names: readonly string[],
): readonly LineFile[] {
  const listed = folder.list((name) => baseNameOf(name, names) !== undefined)
  return names.flatMap((growing) =>
    listed
      .filter(({ name }) => baseNameOf(name, [growing]) !== undefined)
      .map((each) => ({ ...each, growing, isCurrent: each.name === growing }))
      // The name of a rotated file ends with the time of its rotation.
      .sort((a, b) => Number(a.isCurrent) - Number(b.isCurrent) || (a.name < b.name ? -1 : 1)),
  )
}

/** An open file, which stays readable when it is moved or removed. */
export type OpenFile = ReturnType<typeof openFile>

/** File names are never made from a request. */
export type JournalFolder = ReturnType<typeof openJournalFolder>

const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = fs.constants
/** Follows no link and does not block on a pipe: other users of the folder could create either (prepare-folder.ts). */
const appending = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK

/** `mode`: of files that it creates. */
export function openJournalFolder(path: string, mode: FileMode = 0o600) {
  const at = (name: string): string => join(path, name)
  return {
    /** Identifies the folder that is at its path now, or undefined if there is none. */
    identity() {
      const stat = fs.statSync(path, { throwIfNoEntry: false, bigint: true })
      return stat && `${stat.dev}:${stat.ino}`
    },
    /**
     * Lists regular files with wanted names; none if the folder is missing. A file with two hard links is listed twice.
     */
    list: (isWanted: (name: string) => boolean = () => true) =>
      ifThere(() => fs.readdirSync(path), []).flatMap((name) => {
        if (!isWanted(name)) return []
        const stat = fs.statSync(at(name), { throwIfNoEntry: false, bigint: true })
        if (!stat?.isFile()) return []
        return [{ name, inode: String(stat.ino), size: Number(stat.size) }]
      }),
    /** Returns undefined if there is no such file. */
    open: (name: string) => ifThere(() => openFile(at(name)), undefined),
    remove: (name: string) => fs.rmSync(at(name), { force: true }),
    /** Renames a file to `earlier` and puts an empty one in its place. The name exists at every moment. */
    renew(name: string, earlier: string) {
      const fresh = at(`${name}.new`)
      fs.rmSync(fresh, { force: true })
      createFile(fresh, mode)
      fs.linkSync(at(name), at(earlier))
      fs.renameSync(fresh, at(name))
    },
    /** Reads a small file whole; empty if there is none. */
    readText: (name: string) => ifThere(() => readSmallText(at(name)), ''),
    /** Appends in one write, so that concurrent callers do not interleave. Creates the file. */
    appendText(name: string, text: string) {
      const file = fs.openSync(at(name), appending, mode)
      try {
        fs.appendFileSync(file, text)
      } finally {
        fs.closeSync(file)
      }
    },
    /** Replaces a file atomically. */
    replaceText: (name: string, text: string) =>
      replaceFileSync(at(name), text, { mode, draft: at(`${name}.${process.pid}.tmp`) }),
    /**
     * Calls `onChange` when a file may have changed: its name (undefined if unknown), and whether the name may now
     * belong to another file. Returns a function that stops watching, or undefined if the folder can't be watched.
     * `onEnd` is called when watching fails later.
     */
    watch(onChange: (name: string | undefined, isMoved: boolean) => void, onEnd: () => void) {
      try {
        const watcher = fs.watch(path, { persistent: false }, (event, name) => {
          onChange(name ?? undefined, event === 'rename')
        })
        // For example, when the system's watch limit is reached.
        watcher.on('error', () => {
          watcher.close()
          onEnd()
        })
        return () => watcher.close()
      } catch {
        return undefined
      }
    },
    /** Sets its modification time to now. */
    touch(name: string) {
      const now = new Date()
      fs.utimesSync(at(name), now, now)
    },
    /** Modification time in milliseconds since the epoch, or undefined if there is no such file. */
    touchedAt: (name: string) => fs.statSync(at(name), { throwIfNoEntry: false })?.mtimeMs,
  }
}

function openFile(path: string) {
  const file = openToRead(path)
  const { ino } = fs.fstatSync(file, { bigint: true })
  return {
    inode: String(ino),
    size: () => fs.fstatSync(file).size,
    /** Fills the buffer with the bytes from `offset` on; returns how many were read. */
    read: (into: Buffer, offset: number) => fs.readSync(file, into, 0, into.length, offset),
    close: () => fs.closeSync(file),
  }
}

function ifThere<Value>(act: () => Value, otherwise: Value): Value {
  try {
    return act()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return otherwise
    throw error
  }
}
