/** Writes files atomically: for concurrent readers, and across a crash of the machine. */

import { randomUUID } from 'node:crypto'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { toNamed } from './name-file.ts'

interface ReplaceOptions {
  readonly mode?: number
  /** Path of the draft, in the same folder; by default unique for each call. */
  readonly draft?: string
  /** Keeps an existing file. */
  readonly onlyIfAbsent?: boolean
  /**
   * Syncs the folder, too: else the previous file may reappear after a power failure. Rejects on a file system that
   * can't sync folders.
   */
  readonly isDurable?: boolean
}

/**
 * Replaces or creates a file in an existing folder; resolves once its content is on the disk. Of concurrent calls the last
 * one wins, if each has its own draft. What the disk refuses is an error that names the file.
 */
export async function replaceFile(
  path: string,
  content: string | Iterable<string> | ((draft: FileHandle) => Promise<void>),
  options: ReplaceOptions = {},
): Promise<void> {
  const folder = dirname(path)
  const { draft = join(folder, `.${process.pid}.${randomUUID()}`), onlyIfAbsent = false } = options
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
    if (!onlyIfAbsent || (error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw toNamed(path, error)
  } finally {
    await rm(draft, { force: true })
  }
  if (options.isDurable) await within(open(folder), (opened) => opened.sync())
}

async function within(
  opening: Promise<FileHandle>,
  act: (file: FileHandle) => Promise<void>,
): Promise<void> {
  const file = await opening
  await act(file).finally(() => file.close())
}
