/**
 * Replaces files by rename: a reader, such as Envoy, sees the old text or the new one, never a part.
 */

import { randomUUID } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Replaces or creates a file in an existing folder. Of concurrent calls the last one wins. */
export async function replaceFile(path: string, text: string, mode = 0o644): Promise<void> {
  const temporary = join(dirname(path), `.${process.pid}.${randomUUID()}`)
  try {
    const file = await open(temporary, 'wx', mode)
    try {
      await file.writeFile(text)
      // Without it a crash of the machine can leave an empty file under the final name.
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
