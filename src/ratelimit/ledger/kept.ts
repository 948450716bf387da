/** The lines of a journal that a ledger has, from the files that are kept. */

import { type FileHandle, open } from 'node:fs/promises'
import type { LedgerState } from '../../store/usage.ts'
import { readHead } from '../journal/file.ts'
import { listJournal } from '../journal/folder.ts'
import { linesOf } from '../journal/lines.ts'

type Places = LedgerState['journals'][number]['places']

/** Lines of the files beside the journal at this path, oldest first, as far as they were added. */
export async function* readFiles(path: string, places: Places): AsyncGenerator<string> {
  for (const { path: file } of await listJournal(path)) {
    // Renamed or removed meanwhile.
    const handle = await open(file, 'r').catch(() => undefined)
    try {
      if (handle !== undefined) yield* readAdded(handle, places)
    } finally {
      await handle?.close()
    }
  }
}

async function* readAdded(handle: FileHandle, places: Places): AsyncGenerator<string> {
  const head = await readHead(handle)
  const end = places.find((place) => place.head === head)?.offset ?? 0
  if (end > 0) yield* linesOf(handle.createReadStream({ end: end - 1, autoClose: false }))
}
