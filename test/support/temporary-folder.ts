import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

export interface TemporaryFolder {
  readonly path: string
  remove(): void
}

/** The prefix of all their names. */
export const folderPrefix = 'tollgate-test-'

/** Creates an empty folder that every user may enter: as root, Postgres runs as another user. */
export function makeTemporaryFolder(parent = tmpdir()): TemporaryFolder {
  const path = mkdtempSync(join(parent, folderPrefix))
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/**
 * A folder for the data of databases: in memory if there is enough, because a file system on a disk takes two thirds of
 * the CPU time that Postgres needs for the tests.
 */
export function makeDatabaseFolder(): TemporaryFolder {
  return makeTemporaryFolder(freeBytes(memory) > 4 * 2 ** 30 ? memory : tmpdir())
}

/**
 * A folder for the temporary files of tests, including what they install: contains the data of databases, since many
 * small files on a disk take as much CPU time as the programs that write them. Undefined if programs cannot run from
 * there.
 */
export function makeFilesFolder(beside: TemporaryFolder): string | undefined {
  const path = join(beside.path, 'tmp')
  mkdirSync(path)
  // Everybody may create here, and remove only their own.
  chmodSync(path, 0o1777)
  const program = join(path, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
  const { status } = spawnSync(program)
  rmSync(program)
  return status === 0 ? path : undefined
}

export const memory = '/dev/shm'

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return 0
  }
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

/** The path of an empty folder, in memory if possible, removed when `t` ends. */
export function memoryFolder(t: Test): string {
  // In the folder of the run, which the next run removes if this one is killed.
  const isThere = tmpdir().startsWith(`${memory}/`) || freeBytes(memory) <= 2 ** 28
  const { path, remove } = makeTemporaryFolder(isThere ? tmpdir() : memory)
  t.teardown(remove)
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
