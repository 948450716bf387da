/** The read position in the usage journal: a small file beside it, replaced by rename. */

import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Place } from './file.ts'

export interface Position {
  readonly places: readonly Place[]
  /**
   * Lines about responses that ended before this time (milliseconds since the epoch) are ignored,
   * because the counters no longer remember whether they were counted.
   */
  readonly forgottenBefore: number
}

/**
 * Files that are never read as a journal: positions, names, and compressed or partly compressed
 * files.
 */
export const notJournals = /\.(position(\.\d+)?|name(\.[0-9a-f]+)?|gz|xz|zst|bz2|tmp)$/

/** The position of the journal at this path; undefined if there is none, or it is unusable. */
export function loadPosition(path: string): Position | undefined {
  try {
    const { places, forgottenBefore } = JSON.parse(readFileSync(positionPath(path), 'utf8'))
    if (!Array.isArray(places) || !places.every(isPlace)) return undefined
    return Number.isFinite(forgottenBefore) ? { places, forgottenBefore } : undefined
  } catch {
    return undefined
  }
}

/** Saves the position. Synchronous, so that nothing happens between checking the claim and this. */
export function savePosition(path: string, position: Position): void {
  const fresh = `${positionPath(path)}.${process.pid}`
  writeFileSync(fresh, JSON.stringify(position), { mode: 0o600 })
  renameSync(fresh, positionPath(path))
}

/** A draft exists only for a moment: an older one is left over from a killed process. */
const draftMs = 60_000

/** Removes leftover drafts of positions and names beside the journal at this path. */
export function removeDrafts(path: string, now: number): void {
  const [folder, name] = [dirname(path), basename(path)]
  for (const each of existsSync(folder) ? readdirSync(folder) : []) {
    if (
      !each.startsWith(`${name}.`) ||
      !/^(position\.\d+|name\.[0-9a-f]+)$/.test(each.slice(name.length + 1))
    )
      continue
    const draft = join(folder, each)
    const writtenAt = statSync(draft, { throwIfNoEntry: false })?.mtimeMs ?? now
    if (now - writtenAt > draftMs) rmSync(draft, { force: true })
  }
}

function positionPath(path: string): string {
  return `${path}.position`
}

function isPlace(value: unknown): value is Place {
  const { inode, offset, head } = (value ?? {}) as Record<string, unknown>
  return typeof inode === 'string' && Number.isSafeInteger(offset) && typeof head === 'string'
}
