/**
 * A file that is written in place is torn while it is being written. Its previous content stays in
 * force until it is complete, or has been torn for so long that it must be intended.
 */

import {
  type DocumentContent,
  type FileContent,
  type PlacedDocument,
  toFileContent,
} from './documents.ts'

/** How long a torn file's last valid documents stay, in milliseconds. */
export const maxTornMs = 5_000
/** After this many milliseconds, a file that only lost content counts as complete. */
export const completeAfterMs = 1_200

/**
 * How a file's new text compares with its content in force.
 * - whole: nothing suggests that more will follow.
 * - unsettled: written in place (`rewritten`: the same file, not one renamed over it), and
 *   something valid is gone or the file is shorter, so its end may be missing.
 * - torn: valid content is gone, and something broken or nothing at all has replaced it.
 */
type Completeness = 'whole' | 'unsettled' | 'torn'

interface Change {
  readonly before: FileContent
  readonly fresh: FileContent
  readonly rewritten: boolean
  readonly shorter: boolean
}

/** The state of a file that still exists. */
export function completenessOf({ before, fresh, rewritten, shorter }: Change): Completeness {
  const lost = lostIn(before, fresh).length > 0
  const nothing = fresh.documents.length === 0
  if (lost && (nothing || newlyBrokenIn(before, fresh).size > 0)) return 'torn'
  return rewritten && (lost || shorter) ? 'unsettled' : 'whole'
}

/**
 * The valid content of an incomplete file: its new documents, but the old form of missing ones and
 * of the last one, which may be cut off. Newly broken documents are not reported yet.
 */
export function keepLastGood(file: string, before: FileContent, fresh: FileContent): FileContent {
  const broken = newlyBrokenIn(before, fresh)
  const last = keyOfValid(fresh.documents.at(-1)?.content)
  const there = new Set(
    fresh.documents.map(({ content }) => !broken.has(content) && content.found?.key),
  )
  // A Tenant with an error may be in force, too.
  const kept = before.documents.filter(({ content: { found } }) => found && !there.has(found.key))
  const intact = before.documents.filter(({ content: { found } }) => found && found.key === last)
  const taken = fresh.documents.filter(
    ({ content }) => !broken.has(content) && (intact.length === 0 || content.found?.key !== last),
  )
  const parts = new Map([...before.parts, ...fresh.parts])
  return toFileContent(file, [...taken, ...intact, ...kept], parts)
}

/** The valid documents of `before` that are not valid in `fresh`. */
function lostIn(before: FileContent, fresh: FileContent): readonly PlacedDocument[] {
  const keys = new Set(fresh.documents.map(({ content }) => keyOfValid(content)))
  return before.documents.filter(({ content }) => {
    const key = keyOfValid(content)
    return key !== undefined && !keys.has(key)
  })
}

/** Returns undefined if it is not in force, or only in part, so that something stays closed. */
function keyOfValid(content: DocumentContent | undefined): string | undefined {
  return content === undefined || isBroken(content) ? undefined : content.found?.key
}

function isBroken({ problems }: DocumentContent): boolean {
  return problems.some(({ severity }) => severity === 'error')
}

/** The broken documents of `fresh` that are new; equal texts are the same object. */
function newlyBrokenIn(before: FileContent, fresh: FileContent): ReadonlySet<DocumentContent> {
  const known = new Set(before.documents.map(({ content }) => content))
  const broken = fresh.documents.map(({ content }) => content).filter(isBroken)
  return new Set(broken.filter((content) => !known.has(content)))
}
