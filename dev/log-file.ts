import { fchmodSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

/** Permissions of a log: it names users, so only our user may read it. */
export const logMode = 0o600

/** Opens an empty log file for writing, and creates its folder. Returns its descriptor. */
export function openLogFile(file: string): number {
  mkdirSync(dirname(file), { recursive: true })
  const descriptor = openSync(file, 'w', logMode)
  // An older version may have created it with other permissions.
  fchmodSync(descriptor, logMode)
  return descriptor
}
