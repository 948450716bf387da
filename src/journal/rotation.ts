/**
 * Rotates a gateway's files: renames one that has grown and puts an empty one in its place, so that writers always find
 * one. Only the gateway's writer does this.
 */

import { dayMs } from '../formats/time.ts'
import { endMark } from './follower.ts'
import { rotatedName } from './journal-files.ts'
import type { JournalFolder, ListedFile } from './journal-folder.ts'

export interface RotationOptions {
  readonly folder: Pick<JournalFolder, 'list' | 'renew' | 'appendText'>
  /** Names of the current files. */
  readonly files: readonly string[]
  /** The files whose writers frame each line, so that an end mark cannot split one. */
  readonly framed: readonly string[]
  /** Size in bytes at which a file is rotated. */
  readonly maxBytes: number
  /** Whether non-empty files are also rotated at the end of each day (UTC) that this process sees. */
  readonly daily?: boolean
  /** Called in the same turn as a rotation: scripts must be told to open the new file (head-file.ts). */
  readonly onRenamed: () => void
  /** Called at each step: with the error if a file cannot be renamed, and with undefined if all can. */
  readonly onTried?: (error: unknown) => void
  /** Makes Envoy reopen its log. */
  readonly reopen: () => Promise<void>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export function createRotation(options: RotationOptions) {
  const { folder, files, framed, maxBytes, daily = false, now } = options
  /** Rotated files that Envoy may still write: it was not asked to reopen its log, or has not responded. */
  const unopened = new Set<string>()
  /** Whether Envoy has reopened its log since this process began; an earlier process may have rotated files. */
  let isAsked = false
  let day = Math.floor(now() / dayMs)

  function mark(name: string): void {
    try {
      folder.appendText(name, endMark)
    } catch {
      // On a full disk readers find the next file a little later.
    }
  }

  async function rename(): Promise<void> {
    const [listed, today] = [folder.list(), Math.floor(now() / dayMs)]
    const least = daily && today !== day ? 1 : maxBytes
    day = today
    const grown = listed.filter(({ name, size }) => files.includes(name) && size >= least)
    const taken = new Set(listed.map(({ name }) => name))
    for (const { name } of grown) {
      // Two rotations may fall into one millisecond, and the clock may be set back.
      const earlier = rotatedName(name, now(), taken)
      folder.renew(name, earlier)
      unopened.add(earlier)
      // Written before scripts are told: a reader that meets the mark looks for the file that they write from then
      // on.
      if (framed.includes(name)) mark(earlier)
    }
    if (grown.length > 0) options.onRenamed()
  }

  return {
    /** Call it every second. Rejects if Envoy does not respond; the next call asks it again. */
    async step(): Promise<void> {
      await rename().then(options.onTried, options.onTried)
      if (unopened.size > 0 || !isAsked) {
        const asked = [...unopened]
        await options.reopen()
        isAsked = true
        for (const name of asked) unopened.delete(name)
      }
    },
    /** Makes the next step ask Envoy to reopen its log, which may be a file that is no longer in the folder. */
    askAgain(): void {
      isAsked = false
    },
    /** Whether Envoy has stopped writing this file. */
    isLeft: ({ name }: Pick<ListedFile, 'name'>): boolean => isAsked && !unopened.has(name),
  }
}
