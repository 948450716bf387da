/**
 * The position up to which the previous version read its journal. Earlier lines are in its counters in Redis, which
 * count as another gateway's. Read once, while there is no checkpoint.
 */

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { isObject } from '../formats/fields.ts'
import { isWholeNumber } from '../usage/rules/read-line-head.ts'
import { fileHeadOf, readFileStart } from './file-head.ts'
import type { JournalPosition } from './follower.ts'
import { baseNameOf } from './journal-files.ts'
import type { JournalFolder } from './journal-folder.ts'

/** Empty if there was no previous version. `path`: USAGE_JOURNAL. */
export function readEarlierPosition(
  path: string,
  folder: Pick<JournalFolder, 'list' | 'open'>,
): JournalPosition {
  const position: JournalPosition = new Map()
  const offsets = new Map(placesIn(`${path}.position`).map((each) => [each.inode, each.offset]))
  for (const { name, inode } of offsets.size === 0 ? [] : folder.list()) {
    const offset = offsets.get(inode)
    if (offset === undefined || baseNameOf(name, [basename(path)]) === undefined) continue
    const file = folder.open(name)
    const head = file === undefined ? '' : fileHeadOf(readFileStart(file))
    if (head !== '') position.set(head, Math.min(offset, file?.size() ?? 0))
    file?.close()
  }
  return position
}

function placesIn(path: string): readonly { readonly inode: string; readonly offset: number }[] {
  try {
    const { places }: { places: unknown } = JSON.parse(readFileSync(path, 'utf8'))
    if (!Array.isArray(places)) return []
    return places.flatMap((place: unknown) => {
      if (!isObject(place)) return []
      const { inode, offset } = place
      return typeof inode === 'string' && isWholeNumber(offset) ? [{ inode, offset }] : []
    })
  } catch {
    return []
  }
}
