import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/runtime/package-root.ts'

/**
 * The program for a command's process: this clone's in few files, if they exist; a version before 0.2.0 has it in
 * TypeScript.
 */
export function entryOf(root: string): string {
  const { SERVICE_BUNDLE } = process.env
  if (SERVICE_BUNDLE !== undefined && root === packageRoot) return SERVICE_BUNDLE
  const entry = join(root, 'src', 'cli', 'main.js')
  return existsSync(entry) ? entry : entry.replace(/js$/, 'ts')
}
