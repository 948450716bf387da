/**
 * A file of ended keys outside of the database: one JSON object per line with id, time, hash and
 * expiry, and for a replaced secret when it ends. Lines torn by a kill, a full disk or a crash are skipped.
 */

import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../../runtime/replace-file.ts'
import type { EndedKey } from './ended-keys.ts'

/** Lines that are written at a time. */
const someLines = 2_000
const namePattern = /^revocations-.+\.jsonl$/

/** The file of a process in this folder; concurrent processes must have different names. */
export function revocationFileOf(folder: string, process: string): string {
  return join(folder, `revocations-${process.replace(/[^\w.-]+/g, '-')}.jsonl`)
}

/** The files of all processes that have written to this folder. */
export async function listRevocationFiles(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => namePattern.test(name)).sort()
  return names.map((name) => join(folder, name))
}

/** The number of lines, and of those that cannot be parsed. Rejects if there is no such file. */
export async function readRevocationFile(
  file: string,
  onKey: (key: EndedKey) => void,
): Promise<{ readonly lines: number; readonly broken: number }> {
  const content = { lines: 0, broken: 0 }
  const handle = await open(file)
  try {
    for await (const line of handle.readLines()) {
      if (line === '') continue
      content.lines += 1
      const key = readLine(line)
      if (key === undefined) content.broken += 1
      else onKey(key)
    }
    return content
  } finally {
    await handle.close()
  }
}

/** Appends these keys; resolves once they are on disk. */
export async function appendEndedKeys(file: string, keys: readonly EndedKey[]): Promise<void> {
  const handle = await open(file, 'a', 0o600)
  try {
    await handle.appendFile(textsOf(keys))
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

/** Replaces the file; a kill in the middle leaves the old one. Append nothing meanwhile. */
export async function replaceRevocationFile(
  file: string,
  keys: readonly EndedKey[],
): Promise<void> {
  await replaceFile(file, textsOf(keys), { draft: `${file}.new`, mode: 0o600, isDurable: true })
}

function* textsOf(keys: readonly EndedKey[]): Generator<string> {
  // Ends a torn line.
  yield '\n'
  for (let i = 0; i < keys.length; i += someLines) {
    const lines = keys.slice(i, i + someLines).map(showLine)
    yield lines.join('')
  }
}

function showLine({ id, hash, at, endsAt, expiresAt }: EndedKey): string {
  const [expires, ends] = [expiresAt, endsAt ?? null].map((instant) =>
    instant === null ? null : new Date(instant).toISOString(),
  )
  const line = { id, at: new Date(at).toISOString(), hash, ends: ends ?? undefined, expires }
  return `${JSON.stringify(line)}\n`
}

function readLine(line: string): EndedKey | undefined {
  try {
    const { id, at, hash, ends, expires } = JSON.parse(line)
    const key = {
      id: String(id),
      hash,
      at: Date.parse(at),
      endsAt: ends === undefined ? null : Date.parse(ends),
      expiresAt: expires === null ? null : Date.parse(expires),
    }
    // No other text may reach the database, which would refuse all keys of the statement for it.
    const isHash = typeof hash === 'string' && /^[ -~]{1,256}$/.test(hash) && hash !== '*'
    const isDated = !Number.isNaN(key.at + (key.endsAt ?? 0) + (key.expiresAt ?? 0))
    return isHash && isDated ? key : undefined
  } catch {
    return undefined
  }
}
