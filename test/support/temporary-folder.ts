import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Makes an empty folder that everybody may enter: as root, Postgres runs as another user. */
export function makeTemporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-test-'))
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** The path of such a folder, removed when `t` ends. */
export function temporaryFolder(t: Test): string {
  const { path, remove } = makeTemporaryFolder()
  t.teardown(remove)
  return path
}
