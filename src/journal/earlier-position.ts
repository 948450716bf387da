/**
 * How far the version before read its journal: lines before that are in counters that it has kept in Redis,
 * which are read as those of another gateway. Read once, while there is no checkpoint.
 */

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { isObject } from '../formats/fields.ts'
import { isWhole } from '../usage/rules/line-head.ts'
import type { Positions } from './checkpoint.ts'
import type { Folder } from './folder.ts'
import type { Position } from './follower.ts'
import { beginningOf, headIn } from './head.ts'

/** By the names of followed files; empty if there was none before. `path`: USAGE_JOURNAL. */
export function readEarlierPositions(
  path: string,
  names: readonly string[],
  folder: Pick<Folder, 'list' | 'open'>,
): Positions {
  const offsets = new Map<string, number>()
  for (const { inode, offset } of placesIn(`${path}.position`)) offsets.set(inode, offset)
  const journal = names.find((name) => name === basename(path))
  if (offsets.size === 0 || journal === undefined) return new Map()
  const position: Position = new Map()
  for (const { name, inode } of folder.list()) {
    const offset = offsets.get(inode)
    const file = offset === undefined || !name.startsWith(journal) ? undefined : folder.open(name)
    if (file === undefined) continue
    const head = headIn(beginningOf(file))
    if (head !== '') position.set(head, Math.min(offset as number, file.size()))
    file.close()
  }
  return new Map([[journal, position]])
}

function placesIn(path: string): readonly { readonly inode: string; readonly offset: number }[] {
  try {
    const { places }: { places: unknown } = JSON.parse(readFileSync(path, 'utf8'))
    if (!Array.isArray(places)) return []
    return places.flatMap((place: unknown) => {
      if (!isObject(place)) return []
      const { inode, offset } = place
      return typeof inode === 'string' && isWhole(offset) ? [{ inode, offset }] : []
    })
  } catch {
    return []
  }
}
