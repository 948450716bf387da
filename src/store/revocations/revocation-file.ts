/**
 * A file of keys that were ended, outside of the database: one JSON object a line, id, time, hash and
 * expiry. A line that was torn by a kill, a full disk or a lost machine is passed over, and what is
 * written after it begins on a line of its own.
 */

import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { EndedKey } from './ended-keys.ts'

/** What one file holds. */
export interface FileContent {
  readonly lines: number
  /** Lines that cannot be read. */
  readonly broken: number
  /** Whether all that the database had as revoked was put in once. */
  readonly isComplete: boolean
}

/** Lines that are read or written at a time. */
const someLines = 2_000
const namePattern = /^revocations-.+\.jsonl$/

/** The file of a process in this folder; two that live at a time have different names. */
export function fileOf(folder: string, process: string): string {
  return join(folder, `revocations-${process.replace(/[^\w.-]+/g, '-')}.jsonl`)
}

/** The files of all processes that have written into this folder. */
export async function listFiles(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => namePattern.test(name)).sort()
  return names.map((name) => join(folder, name))
}

/**
 * Reads a file, some lines at a time, with the keys in them in the same order. Rejects when there is
 * no such file.
 */
export async function readFile(
  file: string,
  onKeys: (keys: readonly EndedKey[], lines: readonly string[]) => unknown,
): Promise<FileContent> {
  const content = { lines: 0, broken: 0, isComplete: false }
  let [keys, lines]: [EndedKey[], string[]] = [[], []]
  const handle = await open(file)
  try {
    for await (const line of handle.readLines()) {
      if (line === '') continue
      content.lines += 1
      const read = readLine(line)
      if (read === undefined) content.broken += 1
      else if (read === 'complete') content.isComplete = true
      else if (lines.push(line) + keys.push(read) >= 2 * someLines) {
        await onKeys(keys, lines)
        keys = []
        lines = []
      }
    }
    await onKeys(keys, lines)
    return content
  } finally {
    await handle.close()
  }
}

/** Adds these; settled once they are on the disk. `isComplete`: the table's revoked keys are all in. */
export async function append(
  file: string,
  keys: readonly EndedKey[],
  isComplete = false,
): Promise<void> {
  const handle = await open(file, 'a+', 0o600)
  try {
    const { size } = await handle.stat()
    if (size === 0) await syncFolder(file)
    // What was torn off ends here.
    if (size > 0 && !(await endsWithLine(handle, size))) await handle.appendFile('\n')
    for (let i = 0; i < keys.length; i += someLines) {
      await handle.appendFile(
        keys
          .slice(i, i + someLines)
          .map(showLine)
          .join(''),
      )
    }
    if (isComplete) await handle.appendFile(completeLine())
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

/**
 * Writes the file anew without what `isNeeded` denies and without repetitions; a kill in the middle
 * leaves the old one. Nobody may append meanwhile. Answers how many lines are left.
 */
export async function compact(file: string, isNeeded: (key: EndedKey) => boolean): Promise<number> {
  const fresh = `${file}.new`
  const kept = new Set<string>()
  await rm(fresh, { force: true })
  const handle = await open(fresh, 'wx', 0o600)
  try {
    const { isComplete } = await readFile(file, async (keys, lines) => {
      const needed = lines.filter((_, i) => {
        const key = keys[i] as EndedKey
        const isNew = isNeeded(key) && !kept.has(key.hash)
        kept.add(key.hash)
        return isNew
      })
      if (needed.length > 0) await handle.appendFile(`${needed.join('\n')}\n`)
    })
    if (isComplete) await handle.appendFile(completeLine())
    await handle.datasync()
  } finally {
    await handle.close()
  }
  await rename(fresh, file)
  await syncFolder(file)
  return kept.size
}

/** Removes another process's file, if nothing in it is needed and nobody has written to it for long. */
export async function removeSpent(
  file: string,
  isNeeded: (key: EndedKey) => boolean,
  unwrittenMs: number,
): Promise<void> {
  if (Date.now() - (await stat(file)).mtimeMs < unwrittenMs) return
  let needed = 0
  await readFile(file, (keys) => {
    needed += keys.filter(isNeeded).length
  })
  if (needed === 0) await rm(file, { force: true })
}

function completeLine(): string {
  return `${JSON.stringify({ complete: new Date().toISOString() })}\n`
}

function showLine({ id, hash, at, expiresAt }: EndedKey): string {
  const expires = expiresAt === null ? null : new Date(expiresAt).toISOString()
  return `${JSON.stringify({ id, at: new Date(at).toISOString(), hash, expires })}\n`
}

function readLine(line: string): EndedKey | 'complete' | undefined {
  try {
    const { id, at, hash, expires, complete } = JSON.parse(line)
    if (typeof complete === 'string') return 'complete'
    const key = {
      id: String(id),
      hash,
      at: Date.parse(at),
      expiresAt: expires === null ? null : Date.parse(expires),
    }
    const isGood =
      typeof hash === 'string' &&
      hash !== '' &&
      hash !== '*' &&
      !Number.isNaN(key.at + (key.expiresAt ?? 0))
    return isGood ? key : undefined
  } catch {
    return undefined
  }
}

async function endsWithLine(
  handle: Awaited<ReturnType<typeof open>>,
  size: number,
): Promise<boolean> {
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer[0] === 0x0a
}

/** A new name is on the disk only once its folder is. */
async function syncFolder(file: string): Promise<void> {
  const folder = await open(dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
