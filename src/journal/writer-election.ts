/**
 * Writer election among a gateway's processes. The writer is the process whose nonce is the last in a file that all of
 * them see. A process takes over by appending its own nonce, and checks that it is the writer before it does what only
 * the writer may. There may be two for a moment, which does no harm: both have the same sums.
 */

import { randomBytes } from 'node:crypto'
import type { JournalFolder } from './journal-folder.ts'

/** A writer that has not touched the file for this long has ended: it touches it every second. */
export const writerSilenceMs = 4_000
/** Number of nonces that remain when the file is truncated, at twice as many. */
const kept = 64
/** Written in place of a nonce when the last writer resigns. */
const nobody = '-'

export type WriterElection = ReturnType<typeof createWriterElection>

/** `now`: milliseconds since the epoch. */
export function createWriterElection(folder: JournalFolder, name: string, now: () => number) {
  const nonce = randomBytes(6).toString('base64url')
  let isIn = false

  function all(): readonly string[] {
    return folder.readText(name).split('\n').filter(Boolean)
  }

  return {
    nonce,
    /** Nonces of all writers, the latest first. */
    all: (): readonly string[] => all().toReversed(),
    /** Becomes the writer. */
    enter(): void {
      folder.appendText(name, `${nonce}\n`)
      isIn = true
    },
    /** Whether this process is still the writer. A missing file does not change that. */
    isLast(): boolean {
      const last = all().at(-1)
      return last === nonce || (last === undefined && isIn)
    },
    /** Touches the file, to show that the writer is alive. Call it every second in the writer. */
    show(): void {
      const nonces = all()
      if (nonces.length === 0 && isIn) folder.appendText(name, `${nonce}\n`)
      if (nonces.length > 2 * kept) folder.replaceText(name, `${nonces.slice(-kept).join('\n')}\n`)
      else if (nonces.length > 0) folder.touch(name)
    },
    /** Resigns, if this process still is the writer. */
    leave(): void {
      isIn = false
      if (all().at(-1) === nonce) folder.appendText(name, `${nobody}\n`)
    },
    /**
     * Whether there is no writer, it has resigned, or it has not touched the file for a while. A clock that was set
     * back counts as a while.
     */
    isFree(): boolean {
      const at = folder.touchedAt(name)
      if (at === undefined || all().at(-1) === nobody) return true
      return Math.abs(now() - at) >= writerSilenceMs
    },
  }
}
