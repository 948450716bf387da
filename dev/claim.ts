import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { withPathInErrors } from '../src/runtime/path-in-errors.ts'
import { identify, isRunning, readIdentity } from './process-identity.ts'

/** The result of a claim: its release, or the process that holds it. */
type Claim = { readonly release: () => void } | { readonly heldBy: number }

/**
 * Claims something for this process by a file with its name, which at most one living process holds. If the holder has
 * ended in any way, the claim is taken over.
 */
export function claim(file: string): Claim {
  const mine = `${file}.${process.pid}`
  const us = identify(process.pid)
  withPathInErrors(mine, () => writeFileSync(mine, JSON.stringify(us), { mode: 0o600 }))
  try {
    for (;;) {
      // A link is created atomically, so no process reads a half-written claim.
      if (attempt(() => linkSync(mine, file), 'EEXIST')) {
        return { release: () => rmSync(file, { force: true }) }
      }
      const holder = readIdentity(file)
      if (holder !== undefined && isRunning(holder)) return { heldBy: holder.pid }
      // Renamed, not removed: of two processes that find it stale, only one succeeds.
      attempt(() => renameSync(file, `${mine}.stale`), 'ENOENT')
      const moved = readIdentity(`${mine}.stale`)
      if (moved !== undefined && isRunning(moved)) {
        // The other process was faster, and this is its new claim: put it back.
        attempt(() => linkSync(`${mine}.stale`, file), 'EEXIST')
      }
      rmSync(`${mine}.stale`, { force: true })
    }
  } finally {
    rmSync(mine, { force: true })
  }
}

/** False if it failed in the expected way. */
function attempt(action: () => void, expected: string): boolean {
  try {
    action()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === expected) return false
    throw error
  }
}
