/**
 * Bounds a gateway's files: one that has grown is renamed, and another one is in its place, so that whoever
 * writes always finds one. Only the process that writes for its gateway does this.
 */

import type { Folder, Listed } from './folder.ts'
import { endMark } from './follower.ts'

export interface RotationOptions {
  readonly folder: Pick<Folder, 'list' | 'renew' | 'appendText'>
  /** The files that grow. */
  readonly files: readonly string[]
  /** Those of them whose writers frame each line: nothing that is put there cuts one. */
  readonly framed: readonly string[]
  /** At this size in bytes a file is renamed. */
  readonly maxBytes: number
  /** Whether one is also renamed at the end of a day (UTC) that this process sees. */
  readonly daily?: boolean
  /** Called in the turn in which one was renamed: lines are in another one, and scripts that write it are to be told (head-file.ts). */
  readonly onRenamed: () => void
  /** Makes Envoy open its log again. */
  readonly reopen: () => Promise<void>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

const dayMs = 86_400_000

export function createRotation(options: RotationOptions) {
  const { folder, files, framed, maxBytes, daily = false, now } = options
  /** Files that Envoy may still write, since it was not told or has not answered. */
  const unopened = new Set<string>()
  /** Before, nothing is known of what an earlier process has renamed. */
  let isAsked = false
  let day = Math.floor(now() / dayMs)

  /** A name that is not there: two renamings may come in one millisecond, or the clock may have been set back. */
  function freeName(name: string, taken: ReadonlySet<string>): string {
    for (let at = now(); ; at += 1) if (!taken.has(`${name}.${at}`)) return `${name}.${at}`
  }

  function mark(name: string): void {
    try {
      folder.appendText(name, endMark)
    } catch {
      // On a full disk others find the next file a little later.
    }
  }

  return {
    /**
     * To be called each second. Rejects if Envoy does not answer, and asks it again with the next call.
     */
    async step(): Promise<void> {
      const listed = folder.list()
      const today = Math.floor(now() / dayMs)
      const least = daily && today !== day ? 1 : maxBytes
      day = today
      const grown = listed.filter(({ name, size }) => files.includes(name) && size >= least)
      const taken = new Set(listed.map(({ name }) => name))
      for (const { name } of grown) {
        const earlier = freeName(name, taken)
        folder.renew(name, earlier)
        unopened.add(earlier)
        // Before the scripts see it: a reader at the end of this file looks for what they write from then on.
        if (framed.includes(name)) mark(earlier)
      }
      if (grown.length > 0) options.onRenamed()
      if (unopened.size > 0 || !isAsked) {
        const asked = [...unopened]
        await options.reopen()
        isAsked = true
        for (const name of asked) unopened.delete(name)
      }
    },
    /** Envoy may write a file that is not in the folder any more: the next step asks it to open its log again. */
    askAgain(): void {
      isAsked = false
    },
    /** Whether Envoy was made to leave this file. */
    isLeft: ({ name }: Pick<Listed, 'name'>): boolean => isAsked && !unopened.has(name),
  }
}
