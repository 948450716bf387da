/** Heads of files as earlier versions have stored them → the heads that the same files have now. */

import { dirname } from 'node:path'
import { type Folder, openFolder } from '../../journal/folder.ts'
import { beginningOf, headIn } from '../../journal/head.ts'
import type { LedgerPlace } from '../../store/usage.ts'
import { type LaneNames, listLineFiles, namesOf } from './journal-files.ts'

/** The whole digest of the first line, of which a head is the beginning now. */
const wholeDigest = /^[0-9a-f]{32}$/
const present = /^[0-9a-f]{16}$/
/** Before, the first bytes themselves. */
const firstBytes = 44

/** The head that a file has now; of a file that is gone, the stored one. */
export function createRenewHead(folder: Pick<Folder, 'list' | 'open'>, names: LaneNames) {
  let files: (readonly [first: string, head: string])[] | undefined

  function read(): (readonly [string, string])[] {
    return listLineFiles(folder, names).flatMap(({ name }) => {
      const file = folder.open(name)
      if (file === undefined) return []
      const beginning = beginningOf(file)
      file.close()
      return [[beginning.toString('latin1', 0, firstBytes), headIn(beginning)] as const]
    })
  }

  return (stored: string): string => {
    if (present.test(stored)) return stored
    if (wholeDigest.test(stored)) return stored.slice(0, 16)
    files ??= read()
    const at = files.findIndex(([first, head]) => first === stored && head !== '')
    // Another one that begins with the same bytes is another file.
    return at < 0 ? stored : (files.splice(at, 1)[0]?.[1] ?? stored)
  }
}

/** Bytes of the files of the journal at this path, as these places say, by the heads that the files have now. */
export function renewPlaces(
  path: string,
  places: readonly Pick<LedgerPlace, 'head' | 'offset'>[],
): ReadonlyMap<string, number> {
  const renew = createRenewHead(openFolder(dirname(path)), namesOf(path))
  return new Map(places.map(({ head, offset }) => [renew(head), offset]))
}
