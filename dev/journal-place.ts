/**
 * The location of the journal of `tollgate up`: in memory if there is room, because the gateway waits for each write.
 */

import { hash } from 'node:crypto'
import { chmodSync, existsSync, lstatSync, mkdirSync, rmSync, statfsSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Room for the files of both writers, current and rotated. */
const roomBytes = 2 ** 28

/** The owner of the files; undefined on systems without users. */
const uid = process.getuid?.()

/**
 * The folder of the journal: one in memory that only this user, or a group of it, can enter, else `DATA_DIR`/journal. A
 * folder in memory is created. Each DATA_DIR has its own, the same at each start.
 */
export function journalPlace(
  dataDir: string,
  places: readonly string[] = inMemory(dataDir),
): string {
  return places.find(isOurs) ?? join(dataDir, 'journal')
}

/** The folders that `journalPlace` may choose in memory, whether they exist or not. */
export function inMemory(
  dataDir: string,
  parents: readonly string[] = ['/dev/shm', `/run/user/${uid}`],
): readonly string[] {
  if (uid === undefined) return []
  const digest = hash('sha256', resolve(dataDir), 'hex').slice(0, 16)
  return parents.map((parent) => join(parent, `tollgate-${uid}-${digest}`))
}

/**
 * Removes what an earlier DATA_DIR of this path left behind when it was removed, and gives the folder this mode, if it
 * was chosen here. Call after DATA_DIR is claimed and before the service starts.
 */
export function takePlace(
  dataDir: string,
  place: string,
  mode: number,
  ours: readonly string[] = inMemory(dataDir),
): void {
  if (!ours.includes(place)) return
  const kept = join(dataDir, 'journal')
  if (!existsSync(kept)) {
    rmSync(place, { recursive: true, force: true })
    mkdirSync(place, { mode: 0o700 })
    mkdirSync(kept, { recursive: true, mode: 0o700 })
  }
  chmodSync(place, mode)
}

/** Others may create files in these parents: never follows a link, and never uses another user's folder. */
function isOurs(folder: string): boolean {
  try {
    const parent = statfsSync(join(folder, '..'))
    const found = lstatSync(folder, { throwIfNoEntry: false })
    if (found === undefined) {
      if (parent.bavail * parent.bsize < roomBytes) return false
      mkdirSync(folder, { mode: 0o700 })
      return true
    }
    return found.isDirectory() && found.uid === uid && (found.mode & 0o007) === 0
  } catch {
    return false
  }
}
