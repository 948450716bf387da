import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Makes an empty folder that everybody may enter: as root, Postgres runs as another user. */
export function makeTemporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** What is in a folder: texts of files and further folders, by their names. */
export interface Contents {
  readonly [name: string]: string | Contents
}

/**
 * The path of such a folder, removed when `t` ends. Unlike tap's `t.testdir` no other run of the same
 * test has it at the same time.
 */
export function temporaryFolder(t: Test, contents: Contents = {}): string {
  const { path, remove } = makeTemporaryFolder()
  t.teardown(remove)
  fill(path, contents)
  return path
}

function fill(folder: string, contents: Contents): void {
  for (const [name, content] of Object.entries(contents)) {
    const path = join(folder, name)
    if (typeof content === 'string') writeFileSync(path, content)
    else {
      mkdirSync(path)
      fill(path, content)
    }
  }
}
