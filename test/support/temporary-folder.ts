import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

export interface TemporaryFolder {
  readonly path: string
  remove(): void
}

/** With which the names of all of them begin. */
export const folderPrefix = 'tollgate-test-'

/** Creates an empty folder that everybody may enter: as root, Postgres runs as another user. */
export function makeTemporaryFolder(parent = tmpdir()): TemporaryFolder {
  const path = mkdtempSync(join(parent, folderPrefix))
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/**
 * A folder for the data of databases: in memory if there is enough, because a file system on a disk
 * takes two thirds of the CPU that Postgres needs for the tests.
 */
export function makeDatabaseFolder(): TemporaryFolder {
  return makeTemporaryFolder(freeBytes(memory) > 4 * 2 ** 30 ? memory : tmpdir())
}

/**
 * A folder for the temporary files of tests, what they install included: where that for the data of databases is, since a disk takes
 * as much CPU for many small files as what writes them. Undefined if that is no place to run programs from.
 */
export function makeFilesFolder(beside: TemporaryFolder): string | undefined {
  const path = join(beside.path, 'tmp')
  mkdirSync(path)
  // Who may create here is not who may remove.
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

/** The path of an empty folder in memory where that can be had, removed when `t` ends. */
export function memoryFolder(t: Test): string {
  // In that of the run, which the next run removes if this one is killed.
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
