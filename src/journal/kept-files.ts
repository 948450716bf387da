/**
 * Files that outlive the machine's memory, below DATA_DIR: what a gateway's lines add up to. The disk may
 * hang, so nothing waits for these calls but what must.
 */

import { constants } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessMissing } from '../runtime/unless-missing.ts'

export type KeptFiles = ReturnType<typeof openKeptFiles>

/** The folder is created when the first file is. */
export function openKeptFiles(path: string) {
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
      const file = await open(draft, 'w', 0o600)
      try {
        await write((text) => file.appendFile(text))
        await file.sync()
        await rename(draft, at(name))
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      } finally {
        await file.close()
      }
      await syncFolder(path)
    },
    remove: (name: string) => rm(at(name), { force: true }),
  }
}

/** Without it a machine that goes down may bring back the old file, after lines were removed that only the new one has. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
