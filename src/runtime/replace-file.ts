/** Writes files atomically: for concurrent readers, and across a crash of the machine. */

import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { withPathInError } from './path-in-errors.ts'

interface ReplaceOptions {
  readonly mode?: number
  /** Path of the draft, in the same folder; by default unique for each call. */
  readonly draft?: string
  /** Keeps an existing file. */
  readonly onlyIfAbsent?: boolean
  /**
   * Syncs the folder, too: else the previous file may reappear after a power failure. Rejects on a file system that
   * cannot sync folders.
   */
  readonly isDurable?: boolean
}

/**
 * Replaces or creates a file in an existing folder; resolves once its content is on the disk. Of concurrent calls the
 * last one wins, if each has its own draft. Errors of the disk name the file.
 */
export async function replaceFile(
  path: string,
  content: string | Iterable<string> | ((draft: FileHandle) => Promise<void>),
  options: ReplaceOptions = {},
): Promise<void> {
  const { draft = draftOf(path), onlyIfAbsent = false } = options
  await rm(draft, { force: true })
  try {
    await within(open(draft, 'wx', options.mode ?? 0o644), async (file) => {
      await (typeof content === 'function' ? content(file) : file.writeFile(content))
      // Without it a crash of the machine can leave an empty file under the final name.
      await file.sync()
    })
    // A link never replaces a file.
    await (onlyIfAbsent ? link(draft, path) : rename(draft, path))
  } catch (error) {
    if (!onlyIfAbsent || !isThere(error)) throw withPathInError(path, error)
  } finally {
    await rm(draft, { force: true })
  }
  if (options.isDurable) await within(open(dirname(path)), (opened) => opened.sync())
}

/**
 * As `replaceFile`, at once: for small files, and callers that cannot wait. Only with `isDurable` it waits for the disk,
 * and for the file alone. `content` may be made from the new file's inode.
 */
export function replaceFileSync(
  path: string,
  content: string | ((inode: bigint) => string),
  { mode = 0o644, draft = draftOf(path), onlyIfAbsent = false, isDurable }: ReplaceOptions = {},
): void {
  fs.rmSync(draft, { force: true })
  try {
    const file = fs.openSync(draft, 'wx', mode)
    try {
      const { ino } = fs.fstatSync(file, { bigint: true })
      fs.writeFileSync(file, typeof content === 'function' ? content(ino) : content)
      if (isDurable) fs.fsyncSync(file)
    } finally {
      fs.closeSync(file)
    }
    if (onlyIfAbsent) fs.linkSync(draft, path)
    else fs.renameSync(draft, path)
  } catch (error) {
    if (!onlyIfAbsent || !isThere(error)) throw withPathInError(path, error)
  } finally {
    fs.rmSync(draft, { force: true })
  }
}

function draftOf(path: string): string {
  return join(dirname(path), `.${process.pid}.${randomUUID()}`)
}

function isThere(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EEXIST'
}

async function within(
  opening: Promise<FileHandle>,
  act: (file: FileHandle) => Promise<void>,
): Promise<void> {
  const file = await opening
  await act(file).finally(() => file.close())
}
