/** Resources from a folder of YAML, subfolders too: read whole, and read again when it changes. */

import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Resource } from '../core/resources.ts'
import { resourceKey } from '../core/snapshot.ts'
import { type FileProblem, readDocuments, type WrittenResource } from './documents.ts'

export interface FolderContent {
  readonly resources: readonly Resource[]
  readonly problems: readonly FileProblem[]
  /** The problem at a field of one of the resources, in the file where it was written. */
  locate(resource: string, path: readonly (string | number)[], message: string): FileProblem
}

/** Bytes of a file at most; a resource is a page of text. */
const largestFile = 4 * 1_048_576

/**
 * Reads every `.yaml`, `.yml` and `.json` file. Of two resources with one kind, namespace and
 * name the first (by file name, then line) counts. Throws when the folder can't be read.
 */
export async function readFolder(folder: string): Promise<FolderContent> {
  const written = new Map<string, WrittenResource>()
  const problems: FileProblem[] = []
  for (const path of await resourceFiles(folder)) {
    const file = relative(folder, path)
    const text = await readText(path)
    if (text === undefined) {
      problems.push({
        file,
        line: 1,
        severity: 'error',
        message: 'can not be read, or is too large',
      })
      continue
    }
    const content = readDocuments(file, text)
    problems.push(...content.problems)
    for (const fresh of content.resources) {
      const key = resourceKey(fresh.resource)
      const earlier = written.get(key)
      if (earlier === undefined) {
        written.set(key, fresh)
        continue
      }
      const where = `${earlier.file}:${earlier.lineOf(['metadata', 'name'])}`
      problems.push({
        file,
        line: fresh.lineOf(['metadata', 'name']),
        severity: 'error',
        message: `${key} stands in ${where} already, and that one counts`,
      })
    }
  }
  return {
    resources: [...written.values()].map(({ resource }) => resource),
    problems,
    locate(key, path, message) {
      const source = written.get(key)
      return {
        file: source?.file ?? '',
        line: source?.lineOf(path) ?? 1,
        severity: 'warning',
        message: `${key}: ${message}`,
      }
    },
  }
}

/** `file:line: error: message`, as compilers print it. */
export function showProblem({ file, line, severity, message }: FileProblem): string {
  return `${file}:${line}: ${severity}: ${message}`
}

/**
 * Calls `onChange` after the folder's files changed in name, size, time or identity since this
 * promise was kept, and stood still for one look. Looking, unlike listening, also sees saves by
 * rename, symlink swaps of mounted ConfigMaps and network mounts. After each look it rests for
 * twenty times as long as that took, but 200 ms at least and 700 ms at most: a change is to be in
 * force within two seconds.
 */
export async function watchFolder(
  folder: string,
  onChange: () => Promise<void>,
): Promise<{ close(): void }> {
  let closed = false
  let timer: NodeJS.Timeout | undefined
  let handled = await signatureOf(folder)
  let seen = handled

  async function look(): Promise<void> {
    const startedAt = performance.now()
    const signature = await signatureOf(folder)
    const tookMs = performance.now() - startedAt
    if (closed) return
    if (signature !== handled && signature === seen) {
      handled = signature
      await onChange()
    }
    seen = signature
    if (!closed) lookAgain(20 * tookMs)
  }

  function lookAgain(afterMs: number): void {
    timer = setTimeout(() => void look(), Math.min(Math.max(200, afterMs), 700)).unref()
  }

  lookAgain(0)
  return {
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}

async function signatureOf(folder: string): Promise<string> {
  try {
    const files = await resourceFiles(folder)
    const parts = await Promise.all(
      files.map(async (path) => {
        // A link that leads nowhere must not blind the watch to all the other files.
        const found = await stat(path, { bigint: true }).catch(() => undefined)
        return `${path}\0${found?.mtimeNs}\0${found?.size}\0${found?.ino}`
      }),
    )
    return parts.join('\n')
  } catch (error) {
    return `unreadable: ${String(error)}`
  }
}

/**
 * Sorted; hidden files and folders are left out (editors' and mounted ConfigMaps' own). Links to
 * folders are followed, since a ConfigMap mounts its subfolders so; each folder is read once.
 */
async function resourceFiles(folder: string, read = new Set<string>()): Promise<readonly string[]> {
  const place = await realpath(folder)
  if (read.has(place)) return []
  read.add(place)
  const files: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory() || (entry.isSymbolicLink() && (await isFolder(path)))) {
      files.push(...(await resourceFiles(path, read)))
    } else if (/\.(ya?ml|json)$/.test(entry.name)) {
      files.push(path)
    }
  }
  return files.sort()
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

async function readText(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path)
    // Reading a pipe would wait for a writer forever.
    if (!found.isFile() || found.size > largestFile) return undefined
    return await readFile(path, 'utf8')
  } catch {
    return undefined
  }
}
