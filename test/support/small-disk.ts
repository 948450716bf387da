import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { makeTemporaryFolder } from './temporary-folder.ts'

/** A file system of its own that can be filled. */
export interface SmallDisk {
  readonly path: string
  /** Leaves no byte free; may be called again. */
  fill(): void
  /** Frees what `fill` took, or this many bytes of it. */
  free(bytes?: number): void
}

const bytes = 64 * 1_048_576

/** Why tests that need one are skipped; false if they are not. Mounting takes root. */
export const skipSmallDisk = tryToMount()

function mount(path: string): string | false {
  const { status, stderr, error } = spawnSync(
    'mount',
    ['-t', 'tmpfs', '-o', `size=${bytes},mode=755`, 'tmpfs', path],
    { encoding: 'utf8' },
  )
  return status !== 0 && `no file system can be mounted: ${error?.message ?? stderr.trim()}`
}

function unmount(path: string): void {
  spawnSync('umount', ['--lazy', path])
}

function tryToMount(): string | false {
  const { path, remove } = makeTemporaryFolder()
  const problem = mount(path)
  if (problem === false) unmount(path)
  remove()
  return problem
}

/** An empty file system of 64 MiB, removed when `t` ends. */
export function mountSmallDisk(t: Test): SmallDisk {
  const { path, remove } = makeTemporaryFolder()
  const problem = mount(path)
  if (problem !== false) throw new Error(problem)
  t.teardown(() => {
    unmount(path)
    remove()
  })
  // In a folder, so that the filler is not beside the files under test.
  const folder = join(path, 'filler')
  mkdirSync(folder)
  const filler = join(folder, 'filler')
  return {
    path,
    fill() {
      const file = openSync(filler, 'a')
      try {
        for (const piece = Buffer.alloc(65_536); ; ) writeSync(file, piece)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      } finally {
        closeSync(file)
      }
    },
    free(some) {
      if (some === undefined) rmSync(filler, { force: true })
      else truncateSync(filler, statSync(filler).size - some)
    },
  }
}
