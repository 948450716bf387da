/** Removes renamed files of lines that no one needs any more. */

import type { Folder, Listed } from './folder.ts'
import { type Followed, type FollowedFiles, type Position, renamedSince } from './followed-files.ts'

/** Whether other readers are done with a file; `newer`: how many there are of its name that were renamed later. */
export type IsDone = (file: Listed, newer: number) => boolean

/** Of files that are gone, positions that are kept, should one be put back. */
const maxAbsent = 128

/** Those whose lines are all in what was saved, and that nobody writes any more; of each name the newest `kept` stay. */
export function removeSaved(
  { folder, position }: { readonly folder: Pick<Folder, 'remove'>; readonly position: Position },
  files: Pick<FollowedFiles, 'all' | 'isLive'>,
  saved: Position,
  kept: number,
  isDone: IsDone = () => true,
): void {
  const renamed = files.all
    .filter((one) => renamedSince(one) !== undefined)
    // Of one name all are as long.
    .toSorted((a, b) => (a.name < b.name ? 1 : -1))
  for (const all of Map.groupBy(renamed, ({ growing }) => growing).values()) {
    for (const [newer, one] of all.entries()) if (newer >= kept) removeRead(one, newer)
  }
  const gone = [...position.keys()].filter((head) => !files.all.some((one) => one.head === head))
  for (const head of gone.slice(0, -maxAbsent)) position.delete(head)

  function removeRead(one: Followed, newer: number): void {
    const { name, head, file } = one
    const size = file.size()
    // A torn line at its end is nobody's.
    const end = one.isRead ? Math.min(size, position.get(head) ?? 0) : size
    if (files.isLive(one) || (saved.get(head) ?? 0) < end) return
    if (isDone({ name, inode: file.inode, size }, newer)) folder.remove(name)
  }
}
