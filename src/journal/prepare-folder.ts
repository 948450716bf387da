/**
 * Creates the shared folder and its files before Envoy or the service opens one: the users of both must be able to use
 * them, whichever is first.
 */

import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { withPathInErrors } from '../runtime/path-in-errors.ts'
import { openHeadFile } from './head-file.ts'
import type { JournalFiles } from './journal-files.ts'

/** Mode of files: for the owner only, or also for the folder's group, if Envoy runs as another user. */
export type FileMode = 0o600 | 0o660

/** UNIX_SOCKET_MODE → the mode of the journal's files: a group that may connect may also write lines. */
export function fileModeOf(socketMode: number): FileMode {
  return (socketMode & 0o060) === 0o060 ? 0o660 : 0o600
}

/**
 * Creates missing files and the folder; existing ones keep their mode and owner. Throws an error with the path if it
 * can't. Idempotent.
 */
export function prepareFolder(files: JournalFiles, mode: FileMode): void {
  const { folder, script, envoy, head } = files
  if (fs.mkdirSync(folder, { recursive: true, mode: folderModeOf(mode) }) !== undefined) {
    fs.chmodSync(folder, folderModeOf(mode))
  }
  for (const path of [head, script, envoy]) createFile(path, mode)
  withPathInErrors(head, () => openHeadFile(head, mode).close())
}

/** Creates an empty file that Envoy and the service can use, unless it exists. */
export function createFile(path: string, mode: FileMode): void {
  try {
    fs.closeSync(createAndOpenFile(path, mode))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Creates such a file and opens it; throws if it exists. Mode and group are set by its descriptor: anyone who may write
 * to the folder could replace the file by a link, and so have one of the service's own files opened to the group or
 * overwritten.
 */
export function createAndOpenFile(path: string, mode: FileMode): number {
  const file = fs.openSync(path, 'wx+', mode)
  // Independent of the umask.
  fs.fchmodSync(file, mode)
  if (mode === 0o600) return file
  const { gid } = fs.statSync(dirname(path))
  try {
    fs.fchownSync(file, -1, gid)
  } catch {
    // Only a member of the group may change it; otherwise `findMismatch` reports it.
  }
  return file
}

/** The mode of a folder whose files have this mode. */
export function folderModeOf(mode: FileMode): number {
  return mode === 0o600 ? 0o700 : 0o770
}

/** Why this process, or one of the folder's group, can't use the files, or undefined if both can. */
export function findMismatch(files: JournalFiles, mode: FileMode): string | undefined {
  const { folder, script, envoy, head } = files
  for (const path of [folder, script, envoy, head]) {
    const stat = fs.statSync(path, { throwIfNoEntry: false })
    if (stat === undefined) return `${path} is missing`
    const needs = path === folder ? fs.constants.W_OK | fs.constants.X_OK : fs.constants.R_OK
    const owner = `it belongs to user ${stat.uid} and group ${stat.gid} with mode ${octal(stat.mode)}`
    try {
      fs.accessSync(path, needs | fs.constants.R_OK | (path === head ? fs.constants.W_OK : 0))
    } catch {
      return `user ${process.getuid?.()} can't use ${path}: ${owner}`
    }
    const group = path === folder ? 0o070 : 0o060
    if (mode === 0o660 && (stat.mode & group) !== group) {
      return `the group of ${path} can't use it, although UNIX_SOCKET_MODE=660 requires that: ${owner}`
    }
    if (mode === 0o600 && path !== folder && (stat.mode & 0o006) !== 0) {
      return `everybody can use ${path}: ${owner}`
    }
  }
  return undefined
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0')
}
