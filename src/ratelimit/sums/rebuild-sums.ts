/** Sums that are rebuilt beside the current ones: from a checkpoint, and the lines written since. */

import type { KeptState } from '../../journal/checkpoint.ts'
import { createJournalFollower, type JournalPosition } from '../../journal/follower.ts'
import type { JournalFolder } from '../../journal/journal-folder.ts'
import { inSlices } from '../../runtime/slices.ts'
import { createWindowSums, type LineUse } from '../rules/sums.ts'
import type { Tally } from '../rules/tally.ts'
import type { Resets } from '../rules/windows.ts'

export interface RebuildOptions {
  readonly folder: JournalFolder
  readonly files: readonly string[]
  readonly resets: Resets
  /** Where reading begins if the checkpoint has no position. */
  readonly begunAt?: JournalPosition | undefined
  /** The amounts that a line adds, by its text. */
  readonly countText: (text: string) => readonly LineUse[]
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly monotonic: () => number
}

/** Resolves once the files are read to their ends. */
export async function rebuildSums(state: KeptState, options: RebuildOptions) {
  const { folder, files, resets, begunAt, countText, now, monotonic } = options
  const position: JournalPosition = new Map(state.position.size > 0 ? state.position : begunAt)
  const rebuilt = createWindowSums(resets, monotonic)
  rebuilt.replaceOwn(state.own)
  let onLine = (text: string): void => {
    for (const counted of countText(text)) rebuilt.count(counted, now())
  }
  const follower = createJournalFollower({
    folder,
    names: files,
    position,
    now,
    onLine: (text) => onLine(text),
  })
  try {
    await inSlices(follower.readAll())
  } catch (error) {
    follower.close()
    throw error
  }
  return {
    follower,
    /** Live: the follower advances it. */
    position,
    own: (): readonly Tally[] => rebuilt.own(now()),
    /** Passes further lines to `next` instead of these sums. */
    passTo(next: (text: string) => void): void {
      onLine = next
    },
  }
}
