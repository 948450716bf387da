/**
 * A file of ended keys outside of the database: one JSON object per line with id, time, hash and
 * expiry, and for a replaced secret when it ends. A line that was torn by a kill, a full disk or a crash is skipped, and what is written
 * after it begins on a new line.
 */

import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { EndedKey } from './ended-keys.ts'

/** The content of one file. */
export interface FileContent {
  readonly lines: number
  /** Lines that cannot be parsed. */
  readonly broken: number
  /** Whether all revoked keys of the database have been added once. */
  readonly isComplete: boolean
}

/** Lines that are read or written at a time. */
const someLines = 2_000
const namePattern = /^revocations-.+\.jsonl$/

/** The file of a process in this folder; concurrent processes must have different names. */
export function fileOf(folder: string, process: string): string {
  return join(folder, `revocations-${process.replace(/[^\w.-]+/g, '-')}.jsonl`)
}

/** The files of all processes that have written to this folder. */
export async function listFiles(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => namePattern.test(name)).sort()
  return names.map((name) => join(folder, name))
}

/** Reads a file in parts, with the keys of each in order. Rejects if there is no such file. */
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

/**
 * Appends these keys; resolves once they are on disk. `isComplete`: all revoked keys of the table
 * are included.
 */
export async function append(
  file: string,
  keys: readonly EndedKey[],
  isComplete = false,
): Promise<void> {
  const handle = await open(file, 'a+', 0o600)
  try {
    const { size } = await handle.stat()
    if (size === 0) await syncFolder(file)
    // Ends a torn line.
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
 * Rewrites the file without duplicates and without keys that `isNeeded` rejects; a kill in the
 * middle leaves the old file. Nothing may be appended meanwhile. Returns the number of remaining
 * lines.
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

/** Removes another process's file if none of it is needed and it has not been written for long. */
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

function showLine({ id, hash, at, endsAt, expiresAt }: EndedKey): string {
  const expires = expiresAt === null ? null : new Date(expiresAt).toISOString()
  const ends = endsAt === undefined ? undefined : new Date(endsAt).toISOString()
  return `${JSON.stringify({ id, at: new Date(at).toISOString(), hash, ends, expires })}\n`
}

function readLine(line: string): EndedKey | 'complete' | undefined {
  try {
    const { id, at, hash, ends, expires, complete } = JSON.parse(line)
    if (typeof complete === 'string') return 'complete'
    const key = {
      id: String(id),
      hash,
      at: Date.parse(at),
      ...(ends !== undefined && { endsAt: Date.parse(ends) }),
      expiresAt: expires === null ? null : Date.parse(expires),
    }
    const isGood =
      typeof hash === 'string' &&
      hash !== '' &&
      hash !== '*' &&
      !Number.isNaN(key.at + (key.endsAt ?? 0) + (key.expiresAt ?? 0))
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

/** A new name is on disk only after its folder is synced. */
async function syncFolder(file: string): Promise<void> {
  const folder = await open(dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
