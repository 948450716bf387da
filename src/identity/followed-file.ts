/** A file that is read at the start and again whenever it changes. */

import { type BigIntStats, readFileSync, statSync } from 'node:fs'
import { stat } from 'node:fs/promises'

export interface FollowedFile {
  close(): void
}

/** How often the file is looked at, in milliseconds; survives rename-saves and symlink swaps. */
const lookEveryMs = 500

/**
 * Hands the text to `take`, now and after each change. Throws when it cannot be read now, and what
 * `take` throws now; a file that vanishes later is told to `onUnreadable`, once.
 */
export function followFile(
  path: string,
  take: (text: string) => void,
  onUnreadable: () => void,
): FollowedFile {
  // Looked at before it is read: what is saved meanwhile differs from what was seen.
  let seen = signatureOf(statSync(path, { bigint: true }))
  take(readFileSync(path, 'utf8'))
  let looking = false

  async function look(): Promise<void> {
    const signature = await stat(path, { bigint: true }).then(signatureOf, () => 'gone')
    if (signature === seen) return
    seen = signature
    let text: string
    try {
      text = readFileSync(path, 'utf8')
    } catch {
      onUnreadable()
      return
    }
    take(text)
  }

  const timer = setInterval(() => {
    if (looking) return
    looking = true
    void look().finally(() => {
      looking = false
    })
  }, lookEveryMs).unref()
  return { close: () => clearInterval(timer) }
}

function signatureOf({ mtimeNs, size, ino }: BigIntStats): string {
  return `${mtimeNs} ${size} ${ino}`
}
