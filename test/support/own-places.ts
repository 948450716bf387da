import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { memoryFolder, temporaryFolder } from './temporary-folder.ts'

/** Settings of what a service writes: see `ownPlaces`. */
export type OwnPlaces = { readonly DATA_DIR: string; readonly USAGE_JOURNAL: string }

/**
 * The folders in which the service of a test, or all processes of one gateway, keep their files, so that nothing is
 * written into the folder of this repository, and no other test has the same journal, which is in memory as with
 * `npm start`. All of it is removed when `t` ends.
 */
export function ownPlaces(t: Test): OwnPlaces {
  const data = join(temporaryFolder(t), 'data')
  mkdirSync(data)
  return { DATA_DIR: data, USAGE_JOURNAL: join(memoryFolder(t), 'journal', 'usage.jsonl') }
}
