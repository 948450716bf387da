/**
 * A file written in place is torn while its writer is at work. What it said before stays in force
 * until it is whole, or until it has been torn for so long that it must be meant.
 */

import {
  type DocumentContent,
  type FileContent,
  type PlacedDocument,
  toFileContent,
} from './documents.ts'

/** Milliseconds for which a torn file's last good documents stay. */
export const tornMs = 5_000
/** Milliseconds after which a file that only lost something is taken to be finished. */
export const quietMs = 1_200

/**
 * How a file's new text looks beside what is in force of it.
 * - whole: nothing hints at more to come.
 * - unsettled: written in place (`rewritten`: the same file, not one renamed over it), something
 *   valid is gone or the file is shorter, so its end may be missing.
 * - torn: what was valid is gone, and in its place stands something broken, or nothing at all.
 */
export type Look = 'whole' | 'unsettled' | 'torn'

export interface Change {
  readonly before: FileContent
  readonly fresh: FileContent
  readonly rewritten: boolean
  readonly shorter: boolean
}

/** Judges a file that is still there. */
export function lookOf({ before, fresh, rewritten, shorter }: Change): Look {
  const lost = lostIn(before, fresh).length > 0
  const nothing = fresh.documents.length === 0
  if (lost && (nothing || newlyBrokenIn(before, fresh).size > 0)) return 'torn'
  return rewritten && (lost || shorter) ? 'unsettled' : 'whole'
}

/**
 * What counts of a file that is not whole: its new documents, but the old form of those that are
 * gone and of the last one, which may be cut. What is newly broken is no problem yet.
 */
export function keepLastGood(file: string, before: FileContent, fresh: FileContent): FileContent {
  const broken = newlyBrokenIn(before, fresh)
  const last = fresh.documents.at(-1)?.content.found?.key
  const kept = lostIn(before, fresh)
  const uncut = before.documents.filter(({ content: { found } }) => found && found.key === last)
  const taken = fresh.documents.filter(
    ({ content }) => !broken.has(content) && (uncut.length === 0 || content.found?.key !== last),
  )
  const parts = new Map([...before.parts, ...fresh.parts])
  return toFileContent(file, [...taken, ...uncut, ...kept], parts)
}

/** The valid documents of `before` that are not valid documents of `fresh`. */
function lostIn(before: FileContent, fresh: FileContent): readonly PlacedDocument[] {
  const keys = new Set(fresh.resources.map(({ key }) => key))
  return before.documents.filter(({ content: { found } }) => found && !keys.has(found.key))
}

/** What is broken in `fresh` and was not there before; the same text is the same object. */
function newlyBrokenIn(before: FileContent, fresh: FileContent): ReadonlySet<DocumentContent> {
  const known = new Set(before.documents.map(({ content }) => content))
  const broken = fresh.documents
    .map(({ content }) => content)
    .filter(({ problems }) => problems.some(({ severity }) => severity === 'error'))
  return new Set(broken.filter((content) => !known.has(content)))
}
