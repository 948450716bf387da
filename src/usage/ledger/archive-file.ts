/**
 * Archives of a usage journal: compressed files of its lines, numbered consecutively, each with a header that has the
 * previous archive's hash. The hash of an archive covers its uncompressed content, header included.
 */

import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { isObject } from '../../formats/fields.ts'
import { replaceFile } from '../../runtime/replace-file.ts'
import { unlessMissing } from '../../runtime/unless-missing.ts'
import type { LineSource } from './journal-files.ts'

/** The header of an archive. */
interface ArchiveHeader {
  readonly journal: string
  /** From 1. */
  readonly piece: number
  /** The day (UTC) on which the first of its responses ended. */
  readonly day: string
  /** The head of the journal's file, and the range of its bytes in this archive. */
  readonly head: string
  readonly from: number
  readonly bytes: number
  /** The hash of the previous archive; empty for the first. */
  readonly before: string
}

export type ListedArchive = Awaited<ReturnType<typeof listArchives>>[number]

const form = /^(\d{4}-\d\d-\d\d)\.(\d{6,15})(\.envoy)?\.jsonl\.gz$/
/** A draft of this age was left by a killed process. */
const oldDraftMs = 3_600_000

/** Lists the archives in a folder by number, with the program that wrote their lines; none if there is no folder. */
export async function listArchives(folder: string) {
  const found = await readdir(folder, { withFileTypes: true }).catch(unlessMissing)
  return (found ?? [])
    .flatMap((entry) => {
      // Opening a pipe waits for its writer.
      if (!entry.isFile() && !entry.isSymbolicLink()) return []
      const { name } = entry
      const [, day = '', piece, isOfEnvoy] = form.exec(name) ?? []
      if (piece === undefined) return []
      const source: LineSource = isOfEnvoy === undefined ? 'script' : 'envoy'
      return [{ day, piece: Number(piece), source, path: join(folder, name) }]
    })
    .sort((a, b) => a.piece - b.piece)
}

/** Removes drafts that killed processes left. */
export async function removeArchiveDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name)
    const { mtimeMs } = (name.endsWith('.tmp') && (await stat(path).catch(() => {}))) || {}
    if (mtimeMs !== undefined && Date.now() - mtimeMs > oldDraftMs) await rm(path, { force: true })
  }
}

/** Writes an archive atomically and durably. Never replaces one. */
export async function writeArchive(
  folder: string,
  source: LineSource,
  header: ArchiveHeader,
  content: AsyncIterable<Buffer>,
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const number = String(header.piece).padStart(6, '0')
  const end = source === 'envoy' ? '.envoy.jsonl.gz' : '.jsonl.gz'
  const path = join(folder, `${header.day}.${number}${end}`)
  const draft = `${path}.${randomUUID()}.tmp`
  async function* all() {
    yield Buffer.from(`${JSON.stringify({ archive: 1, ...header })}\n`)
    yield* content
  }
  await replaceFile(
    path,
    (file) => pipeline(Readable.from(all()), createGzip(), (packed) => file.writeFile(packed)),
    { draft, mode: 0o600, onlyIfAbsent: true, isDurable: true },
  )
}

/** Opens an archive. Reading rejects if the archive can't be decompressed, or has no header. */
export function openArchive(path: string) {
  const hash = createHash('sha256')
  async function* content() {
    const gunzip = createGunzip()
    // An error also ends `gunzip`, whose reader receives it.
    pipeline(createReadStream(path), gunzip).catch(() => {})
    for await (const chunk of gunzip) {
      hash.update(chunk)
      yield chunk as Buffer
    }
  }
  const lines = linesOf(content())
  return {
    async header(): Promise<ArchiveHeader> {
      const { value } = await lines.next()
      const header: unknown = JSON.parse(value ?? 'null')
      if (isObject(header) && header.archive === 1) return header as unknown as ArchiveHeader
      throw new Error('it has no header')
    },
    /** The lines after the header. */
    lines,
    /** Stops reading. */
    close: async (): Promise<void> => void (await lines.return(undefined)),
    /** Call it after the last line. */
    hash: (): string => hash.digest('hex'),
  }
}

/** Header and hash of an archive, read to its end. */
export async function inspectArchive(path: string) {
  const archive = openArchive(path)
  const header = await archive.header()
  for await (const _ of archive.lines);
  return { header, hash: archive.hash() }
}

/** Maximum length in bytes of a journal's line; longer lines are something else. */
export const maxLineBytes = 65_536
const lineEnd = 10

/** Lines without their ends; an unfinished last line and overlong lines are left out. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  let isOverlong = false
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let begin = 0
    for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, begin)) {
      if (!isOverlong && end - begin < maxLineBytes) yield bytes.toString('utf8', begin, end)
      isOverlong = false
      begin = end + 1
    }
    isOverlong ||= bytes.length - begin >= maxLineBytes
    rest = isOverlong ? Buffer.alloc(0) : bytes.subarray(begin)
  }
}
