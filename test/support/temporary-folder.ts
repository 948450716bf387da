import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Creates an empty folder that everybody may enter: as root, Postgres runs as another user. */
export function makeTemporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** The contents of a folder: texts of files, and further folders, by name. */
export interface Contents {
  readonly [name: string]: string | Contents
}

/**
 * The path of such a folder, removed when `t` ends. Unlike tap's `t.testdir` it is not shared with
 * other runs of the same test.
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
