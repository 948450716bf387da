/**
 * The folder that a gateway and its service processes share: it has the files with the gateway's lines.
 * It is in memory if possible, and its calls wait only for the file system, so that a
 * Check can look at the end of a file before it decides.
 */

import * as fs from 'node:fs'
import { join } from 'node:path'
import { growingOf } from './files.ts'
import { createFile, type FileMode } from './prepare-folder.ts'
import { openToRead, readSmallText } from './small-file.ts'

export interface Listed {
  readonly name: string
  readonly inode: string
  readonly size: number
}

/** A file with lines: one that grows, or was renamed. */
export interface LineFile extends Listed {
  /** The name of the one that grows. */
  readonly growing: string
  /** Whether it still has that name. */
  readonly isCurrent: boolean
}

/** The files of a folder that have, or had, these names: in this order, and per name the oldest first. */
export function listLineFiles(
  folder: Pick<Folder, 'list'>,
  names: readonly string[],
): readonly LineFile[] {
  const listed = folder.list((name) => growingOf(name, names) !== undefined)
  return names.flatMap((growing) =>
    listed
      .filter(({ name }) => growingOf(name, [growing]) !== undefined)
      .map((each) => ({ ...each, growing, isCurrent: each.name === growing }))
      // Those that were renamed are called by the time.
      .sort((a, b) => Number(a.isCurrent) - Number(b.isCurrent) || (a.name < b.name ? -1 : 1)),
  )
}

/** A file that stays open when it is moved or removed. */
export type OpenFile = ReturnType<typeof openFile>

/** Names are those of files in the folder, never made from a request. */
export type Folder = ReturnType<typeof openFolder>

const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = fs.constants
/** Follows no link and does not wait at a pipe: other users of the folder could create either (prepare-folder.ts). */
const appending = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK

/** `mode`: of files that are created in it. */
export function openFolder(path: string, mode: FileMode = 0o600) {
  const at = (name: string): string => join(path, name)
  return {
    /** Which folder it is, as long as there is one at its path. */
    identity() {
      const stat = fs.statSync(path, { throwIfNoEntry: false, bigint: true })
      return stat && `${stat.dev}:${stat.ino}`
    },
    /** Files only, of those whose names are wanted; none if there is no such folder. A file with two names is there twice. */
    list: (isWanted: (name: string) => boolean = () => true) =>
      ifThere(() => fs.readdirSync(path), []).flatMap((name) => {
        if (!isWanted(name)) return []
        const stat = fs.statSync(at(name), { throwIfNoEntry: false, bigint: true })
        if (!stat?.isFile()) return []
        return [{ name, inode: String(stat.ino), size: Number(stat.size) }]
      }),
    /** undefined if there is no such file any more. */
    open: (name: string) => ifThere(() => openFile(at(name)), undefined),
    remove: (name: string) => fs.rmSync(at(name), { force: true }),
    /** Puts an empty file in its place, and leaves it under the name `earlier`; there is one of the name at any moment. */
    renew(name: string, earlier: string) {
      const fresh = at(`${name}.new`)
      fs.rmSync(fresh, { force: true })
      createFile(fresh, mode)
      fs.linkSync(at(name), at(earlier))
      fs.renameSync(fresh, at(name))
    },
    /** A small file as a whole; empty if there is none. */
    readText: (name: string) => ifThere(() => readSmallText(at(name)), ''),
    /** In one write, so that of two callers each has its text whole. Creates the file. */
    appendText(name: string, text: string) {
      const file = fs.openSync(at(name), appending, mode)
      try {
        fs.appendFileSync(file, text)
      } finally {
        fs.closeSync(file)
      }
    },
    /** Whole or not at all for those who read it. */
    replaceText(name: string, text: string) {
      const draft = at(`${name}.${process.pid}.tmp`)
      fs.rmSync(draft, { force: true })
      fs.writeFileSync(draft, text, { mode, flag: 'wx' })
      fs.renameSync(draft, at(name))
    },
    /**
     * Calls back when a file may have changed (unknown which: undefined), or a name is another file's; returns what
     * ends that, or nothing where it can't be told. `onEnd`: it can't be told any more.
     */
    watch(onChange: (name: string | undefined, isMoved: boolean) => void, onEnd: () => void) {
      try {
        const watcher = fs.watch(path, { persistent: false }, (event, name) => {
          onChange(name ?? undefined, event === 'rename')
        })
        // For example, at the system's limit of watches.
        watcher.on('error', () => {
          watcher.close()
          onEnd()
        })
        return () => watcher.close()
      } catch {
        return undefined
      }
    },
    /** Moves its time of modification to now. */
    touch(name: string) {
      const now = new Date()
      fs.utimesSync(at(name), now, now)
    },
    /** Milliseconds since the epoch; undefined: no such file. */
    touchedAt: (name: string) => fs.statSync(at(name), { throwIfNoEntry: false })?.mtimeMs,
  }
}

function openFile(path: string) {
  const file = openToRead(path)
  const { ino } = fs.fstatSync(file, { bigint: true })
  return {
    inode: String(ino),
    size: () => fs.fstatSync(file).size,
    /** Fills the buffer from its start with what is at `offset`; returns the number of bytes. */
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
