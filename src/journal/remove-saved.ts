/** Removes rotated files that no reader still needs. */

import {
  type FollowedFile,
  type FollowedFiles,
  type JournalPosition,
  renamedSince,
} from './followed-files.ts'
import type { JournalFolder, ListedFile } from './journal-folder.ts'

/** Whether other readers have finished a file; `newer`: how many files of its base name were rotated later. */
export type IsDone = (file: ListedFile, newer: number) => boolean

/** Maximum number of positions retained for absent files, in case one is restored. */
const maxAbsent = 128

/**
 * Removes rotated files whose lines are all covered by `saved` and that are no longer written; retains the newest
 * `kept` of each base name.
 */
export function removeSavedFiles(
  {
    folder,
    position,
  }: { readonly folder: Pick<JournalFolder, 'remove'>; readonly position: JournalPosition },
  files: Pick<FollowedFiles, 'all' | 'isLive'>,
  saved: JournalPosition,
  kept: number,
  isDone: IsDone = () => true,
): void {
  const renamed = files.all
    .filter((one) => renamedSince(one) !== undefined)
    // Names of one base are equally long, so they sort by time.
    .toSorted((a, b) => (a.name < b.name ? 1 : -1))
  for (const all of Map.groupBy(renamed, ({ growing }) => growing).values()) {
    for (const [newer, one] of all.entries()) if (newer >= kept) removeRead(one, newer)
  }
  const gone = [...position.keys()].filter((head) => !files.all.some((one) => one.head === head))
  for (const head of gone.slice(0, -maxAbsent)) position.delete(head)

  function removeRead(one: FollowedFile, newer: number): void {
    const { name, head, file } = one
    const size = file.size()
    // A torn line at the end will not be completed.
    const end = one.isRead ? Math.min(size, position.get(head) ?? 0) : size
    if (files.isLive(one) || (saved.get(head) ?? 0) < end) return
    if (isDone({ name, inode: file.inode, size }, newer)) folder.remove(name)
  }
}
