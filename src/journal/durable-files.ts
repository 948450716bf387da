/**
 * Files that outlive the machine's memory, below DATA_DIR: what a gateway's lines add up to. The disk may
 * hang, so nothing waits for these calls but what must.
 */

import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../runtime/replace-file.ts'
import { unlessMissing } from '../runtime/unless-missing.ts'

export type DurableFiles = ReturnType<typeof openDurableFiles>

/** The folder is created when the first file is. */
export function openDurableFiles(path: string) {
  const at = (name: string): string => join(path, name)
  return {
    names: async (): Promise<readonly string[]> => (await readdir(path).catch(unlessMissing)) ?? [],
    /** Empty if there is none. */
    read: async (name: string) => (await readFile(at(name), 'utf8').catch(unlessMissing)) ?? '',
    /** Resolves once it is on the disk. The file must be there. */
    async append(name: string, text: string) {
      // Never creates it: alone, what is added would be taken for all.
      const file = await open(at(name), constants.O_WRONLY | constants.O_APPEND)
      try {
        await file.writeFile(text)
        await file.datasync()
      } finally {
        await file.close()
      }
    },
    /** Puts what `write` gives in the place of the file: whole or not at all, also if the machine goes down. */
    async replace(name: string, write: (put: (text: string) => Promise<void>) => Promise<void>) {
      await mkdir(path, { recursive: true, mode: 0o700 })
      const draft = at(`${name}.${process.pid}.tmp`)
      const put = (file: FileHandle) => write((text) => file.appendFile(text))
      await replaceFile(at(name), put, { draft, mode: 0o600, isDurable: true })
    },
    remove: (name: string) => rm(at(name), { force: true }),
  }
}
