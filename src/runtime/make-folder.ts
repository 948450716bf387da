import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Creates the folder with those above it. Node's own `recursive` hangs if a folder cannot be created in an existing one: /proc. */
export function makeFolder(folder: string, mode: number): void {
  const found = isFolder(folder)
  if (found === false) throw Object.assign(new Error('ENOTDIR'), { code: 'ENOTDIR' })
  if (found) return
  makeFolder(dirname(folder), mode)
  try {
    mkdirSync(folder, { mode })
  } catch (error) {
    // Another process may have created it just now.
    if (!isFolder(folder)) throw error
  }
}

/** Undefined if it does not exist. */
export function isFolder(path: string): boolean | undefined {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory()
}
