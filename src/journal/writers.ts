/**
 * Which of a gateway's processes writes: the one whose nonce is the last in a file that all of them see. A
 * process that takes this place appends its own; each looks before whatever only the writer may do. There may be two for
 * a moment, which does no harm: both have the same sums.
 */

import { randomBytes } from 'node:crypto'
import type { Folder } from './folder.ts'

/** A writer that has not been seen for this long has ended: it shows itself each second. */
export const silentMs = 4_000
/** Nonces that are kept; the file is cut at twice as many. */
const kept = 64
/** In place of a nonce: the last writer has left. */
const nobody = '-'

/** `now`: milliseconds since the epoch. */
export function createWriters(folder: Folder, name: string, now: () => number) {
  const nonce = randomBytes(6).toString('base64url')
  let isIn = false

  function all(): readonly string[] {
    return folder.readText(name).split('\n').filter(Boolean)
  }

  return {
    nonce,
    /** Those that have written, the last one first. */
    all: (): readonly string[] => all().toReversed(),
    /** Becomes the last one. */
    enter(): void {
      folder.appendText(name, `${nonce}\n`)
      isIn = true
    },
    /** Whether no other has become the last one since. A file that was removed says nothing of others. */
    isLast(): boolean {
      const last = all().at(-1)
      return last === nonce || (last === undefined && isIn)
    },
    /** Shows the others that this one is there; to be called each second by the last one. */
    show(): void {
      const nonces = all()
      if (nonces.length === 0 && isIn) folder.appendText(name, `${nonce}\n`)
      if (nonces.length > 2 * kept) folder.replaceText(name, `${nonces.slice(-kept).join('\n')}\n`)
      else if (nonces.length > 0) folder.touch(name)
    },
    /** Leaves the place to another one, if it still is this one's. */
    leave(): void {
      isIn = false
      if (all().at(-1) === nonce) folder.appendText(name, `${nobody}\n`)
    },
    /**
     * Whether the last one has left or not shown itself for a while, or there is none. A clock that was set back
     * counts as a while.
     */
    isFree(): boolean {
      const at = folder.touchedAt(name)
      if (at === undefined || all().at(-1) === nobody) return true
      return Math.abs(now() - at) >= silentMs
    },
  }
}
