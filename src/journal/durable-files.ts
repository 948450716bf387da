/**
 * Checkpoint files below DATA_DIR, on a disk: unlike the shared folder they survive a reboot. The disk may hang, so
 * await these calls only where the result is needed.
 */

import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../runtime/replace-file.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'

export type DurableFiles = ReturnType<typeof openDurableFiles>

/** The folder is created with its first file. */
export function openDurableFiles(path: string) {
  const at = (name: string): string => join(path, name)
  return {
    names: async (): Promise<readonly string[]> => (await readdir(path).catch(unlessMissing)) ?? [],
    /** Returns an empty text if there is no such file. */
    read: async (name: string) => (await readFile(at(name), 'utf8').catch(unlessMissing)) ?? '',
    /** Appends to an existing file; resolves once the data is on disk. */
    async append(name: string, text: string) {
      // Without O_CREAT: an appended tail alone would be taken for a complete file.
      const file = await open(at(name), constants.O_WRONLY | constants.O_APPEND)
      try {
        await file.writeFile(text)
        await file.datasync()
      } finally {
        await file.close()
      }
    },
    /** Replaces the file by the texts that `write` puts: atomically, even if the machine goes down. */
    async replace(name: string, write: (put: (text: string) => Promise<void>) => Promise<void>) {
      await mkdir(path, { recursive: true, mode: 0o700 })
      const draft = at(`${name}.${process.pid}.tmp`)
      const put = (file: FileHandle) => write((text) => file.appendFile(text))
      await replaceFile(at(name), put, { draft, mode: 0o600, isDurable: true })
    },
    remove: (name: string) => rm(at(name), { force: true }),
  }
}
