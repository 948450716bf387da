/** Resources from a folder of YAML and its subfolders; a file is read again when it has changed. */

import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { runInThread } from '../../runtime/run-in-thread.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { RefusedResource } from '../rules/refused-resources.ts'
import {
  type DocumentContent,
  type FileContent,
  type FileProblem,
  type FileText,
  parseFileInSteps,
  toFileContent,
  unreadableDocument,
} from './documents.ts'
import { completeAfterMs, completenessOf, keepLastGood, maxTornMs } from './last-good.ts'
import { batchesOf, type FileState, listFiles, missingFile } from './list-files.ts'
import { createResourceGatherer } from './resource-gatherer.ts'
import type { Contents } from './resource-source.ts'
import { isLimitedTenant } from './unreadable-tenant.ts'

const worker = new URL('./document-worker.ts', import.meta.url)

/** A document that is too long for one slice. */
const readElsewhere = (text: string): Promise<readonly DocumentContent[]> =>
  runInThread(worker, text)

interface KnownFile {
  /** Its last known state, and since when. */
  seen: FileState
  seenAt: number
  /** The content last read, and the file's state then; undefined before the first read. */
  read: FileState | undefined
  /** Whether it was there at the first check and was never read: what was in force of it before is not known. */
  isUnknown: boolean
  /** Whether it should have been readable in that state: the next check tries again. */
  hasFailed: boolean
  fresh: FileContent
  inForce: FileContent
  /** Its state when it was last complete. */
  whole: FileState | undefined
  /** Since when it seems to be half written. */
  suspectSince: number | undefined
}

/** The `.yaml`, `.yml` and `.json` files of a folder. */
export function createResourceFolder(folder: string) {
  const files = new Map<string, KnownFile>()
  let isFirst = true

  /** Records the states of files; returns those to be read or compared, and whether one was removed. */
  function compare(listed: ReadonlyMap<string, FileState>, now: number) {
    const due: [path: string, file: KnownFile][] = []
    for (const [path, seen] of listed) {
      const known = files.get(path)
      if (known?.seen.signature === seen.signature) {
        if (isUnsettled(known) || known.hasFailed) due.push([path, known])
        continue
      }
      const file: KnownFile = known ?? { ...unread, isUnknown: isFirst, seen, seenAt: now }
      file.seen = seen
      file.seenAt = now
      files.set(path, file)
      if (isFirst) due.push([path, file])
    }
    let went = false
    for (const [path, file] of files) {
      if (listed.has(path)) continue
      if (file.seen === missingFile) went = files.delete(path)
      else file.seen = missingFile
    }
    return { due, went }
  }

  return {
    /**
     * Checks the folder at `now` (milliseconds, from any origin) and reads what has changed.
     * Returns undefined if nothing has. After the first check, a change counts when two checks saw
     * the same. If a file seems half written, its previous content may still count (last-good.ts).
     * Throws if the folder cannot be read; the last state then stays. Calls must not overlap.
     */
    async poll(now: number): Promise<Contents | undefined> {
      const { due, went } = compare(await listFiles(folder, files.keys()), now)
      let changed = isFirst || went
      for (const some of batchesOf(due)) {
        const all = await Promise.all(some.map(([path, file]) => readBytes(path, file)))
        for (const [index, [path, file]] of some.entries()) {
          const before = file.inForce
          await classify(file, relative(folder, path), all[index], now)
          changed ||= file.inForce !== before
        }
      }
      isFirst = false
      if (!changed) return undefined
      const gathered = await inSlices(gatherContents(inOrder(files)))
      const unknown = [...files].flatMap(([path, { isUnknown }]) =>
        isUnknown ? relative(folder, path) : [],
      )
      return unknown.length === 0 ? gathered : { ...gathered, unknown }
    },
    /** Whether the next check may find a change although nothing on disk changes. */
    unsettled: (): boolean => [...files.values()].some(isUnsettled),
  }
}

const nothing: FileContent = {
  documents: [],
  resources: [],
  problems: [],
  refused: [],
  parts: new Map(),
}
const unread = {
  read: undefined,
  hasFailed: false,
  fresh: nothing,
  inForce: nothing,
  whole: undefined,
  suspectSince: undefined,
}

function isUnsettled({ seen, read, suspectSince }: KnownFile): boolean {
  return seen.signature !== read?.signature || suspectSince !== undefined
}

/** Reads a file's content unless it is known, and puts the valid part in force. */
async function classify(
  file: KnownFile,
  name: string,
  bytes: Buffer | undefined,
  now: number,
): Promise<void> {
  const { seen, seenAt, inForce, whole } = file
  const isNew = file.read?.signature !== seen.signature || bytes !== undefined
  if (!isNew && file.suspectSince === undefined) return
  if (isNew) {
    file.fresh =
      bytes === undefined
        ? unreadable(name, inForce)
        : await inSlices(parseFileInSteps(name, toText(bytes), inForce, readElsewhere))
    file.read = seen
    file.isUnknown &&= bytes === undefined
    file.hasFailed = bytes === undefined && seen.readable
  }
  const { fresh } = file
  const completeness = completenessOf({
    before: inForce,
    fresh,
    rewritten: whole?.inode === seen.inode,
    shorter: whole !== undefined && seen.size < whole.size,
  })
  if (completeness !== 'whole') {
    file.suspectSince ??= now
    const isQuiet = completeness === 'unsettled' && now - seenAt >= completeAfterMs
    if (!isQuiet && now - file.suspectSince < maxTornMs) {
      if (isNew) file.inForce = unlessSame(inForce, keepLastGood(name, inForce, fresh))
      return
    }
  }
  file.suspectSince = undefined
  file.whole = seen
  file.inForce = unlessSame(inForce, fresh)
}

/** `before` itself if `after` has the same content in the same places. */
function unlessSame(before: FileContent, after: FileContent): FileContent {
  const same =
    before.documents.length === after.documents.length &&
    before.problems.length === after.problems.length &&
    before.documents.every(({ content, linesBefore }, index) => {
      const other = after.documents[index]
      return other?.content === content && other.linesBefore === linesBefore
    })
  return same ? before : after
}

function toText(bytes: Buffer): FileText {
  return { text: bytes.toString('utf8'), isUtf8: isUtf8(bytes) }
}

/** A file that had limits of the Tenant counts as one whose limits cannot be read. */
function unreadable(file: string, before: FileContent): FileContent {
  const isTenant = before.resources.some(({ resource }) => isLimitedTenant(resource))
  const effect = isTenant ? ': it had the limits of the Tenant, so nobody may use any model' : ''
  const content = unreadableDocument(1, `cannot be read, or is too large${effect}`, isTenant)
  return toFileContent(file, [{ content, linesBefore: 0 }], new Map())
}

function inOrder(files: ReadonlyMap<string, KnownFile>): readonly FileContent[] {
  return [...files.keys()].sort().map((path) => (files.get(path) as KnownFile).inForce)
}

/** Of two resources with one key the first (by file, then line) counts. */
export function* gatherContents(contents: Iterable<FileContent>): Generator<void, Contents> {
  const gathering = createResourceGatherer(({ file, lineOf }) => {
    return `is defined at ${file}:${lineOf(['metadata', 'name'])} already`
  }, 1)
  const problems: FileProblem[] = []
  const refused: RefusedResource[] = []
  let hasIllegible = false
  for (const inForce of contents) {
    hasIllegible ||= inForce.documents.some(({ content }) => content.isIllegible)
    for (const problem of inForce.problems) problems.push(problem)
    for (const each of inForce.refused) refused.push(each)
    for (const fresh of inForce.resources) {
      const problem = gathering.add(fresh)
      if (problem !== undefined) problems.push(problem)
    }
    yield
  }
  return { ...gathering.end(problems, refused), hasIllegible }
}

/** `file:line: error: message`, in the format of compilers. */
export function formatProblem({ file, line, severity, message }: FileProblem): string {
  return `${line === 0 ? file : `${file}:${line}`}: ${severity}: ${message}`
}

/** undefined if it cannot be read, or has been read already. */
async function readBytes(path: string, file: KnownFile): Promise<Buffer | undefined> {
  const { seen, read, hasFailed } = file
  if (!seen.readable || (read?.signature === seen.signature && !hasFailed)) return undefined
  return readFile(path).catch(() => undefined)
}
