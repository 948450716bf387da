/**
 * Bounds a gateway's files: one that has grown is renamed, and whoever writes it begins a new one. Only the
 * process that writes for its gateway does this.
 */

import type { Folder, Listed } from './folder.ts'

export interface RotationOptions {
  readonly folder: Pick<Folder, 'list' | 'rename'>
  /** The files that grow. */
  readonly files: readonly string[]
  /** At this size in bytes a file is renamed. */
  readonly maxBytes: number
  /** Tells scripts that write one of them (head-file.ts). */
  readonly noteRenamed: () => void
  /** Makes Envoy open its log again. */
  readonly reopen: () => Promise<void>
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export type Rotation = ReturnType<typeof createRotation>

export function createRotation(options: RotationOptions) {
  const { folder, files, maxBytes, now } = options
  /** Files that Envoy may still write, since it was not told or has not answered. */
  const unopened = new Set<string>()
  /** Before, nothing is known of what an earlier process has renamed. */
  let isAsked = false

  return {
    /**
     * To be called each second. Resolves with whether a file was renamed, which is a time to save. Rejects
     * if Envoy does not answer, and asks it again with the next call.
     */
    async step(): Promise<boolean> {
      const grown = folder
        .list()
        .filter(({ name, size }) => files.includes(name) && size >= maxBytes)
      for (const { name } of grown) {
        const renamed = `${name}.${now()}`
        folder.rename(name, renamed)
        unopened.add(renamed)
      }
      if (grown.length > 0) options.noteRenamed()
      if (unopened.size > 0 || !isAsked) {
        const asked = [...unopened]
        await options.reopen()
        isAsked = true
        for (const name of asked) unopened.delete(name)
      }
      return grown.length > 0
    },
    /** Whether Envoy was made to leave this file. */
    isLeft: ({ name }: Pick<Listed, 'name'>): boolean => isAsked && !unopened.has(name),
  }
}
