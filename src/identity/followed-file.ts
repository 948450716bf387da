/** A file that is read at the start and again whenever it changes. */

import { readFileSync } from 'node:fs'
import { type FilesWatch, watchFiles } from '../runtime/watch-files.ts'

/** How often the file is checked, in milliseconds; a change is read at the second check that finds it. */
const pollMs = 250
/** A file that differs at so many checks in a row is read anyway. */
const maxDiffering = 8

/**
 * Passes the text to `take`, now and after each change. Throws if it cannot be read now, and what
 * `take` throws now. If it cannot be read later, calls `onUnreadable` once, and tries again until it can.
 */
export function followFile(
  path: string,
  take: (text: string) => void,
  onUnreadable: () => void,
): FilesWatch {
  let text = readFileSync(path, 'utf8')
  take(text)
  // The first check reads it again, because it may have changed since.
  let seen = ''
  let last = ''
  let differing = 0
  let isReadable = true
  return watchFiles([path], pollMs, (signature) => {
    if (signature === seen) return
    // A file that is written in place is empty or cut off meanwhile.
    differing = signature === last ? 0 : differing + 1
    last = signature
    if (differing % maxDiffering > 0) return
    let read: string
    try {
      read = readFileSync(path, 'utf8')
    } catch {
      if (isReadable) onUnreadable()
      isReadable = false
      return
    }
    seen = signature
    isReadable = true
    if (read === text) return
    text = read
    take(text)
  })
}
