/** Input of a command: a file, standard input, or a folder of resources. */

import { readFile, stat } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { loadSnapshot } from '../models/sources/pipeline.ts'

/** The text of the file, of standard input if it is `-`, without a byte-order mark. Rejects with a readable error. */
export async function readInput(path: string, input: NodeJS.ReadableStream): Promise<string> {
  if (path === '-') return await text(input)
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${path} cannot be read (${error.code}).`)
  })
  return new TextDecoder().decode(bytes)
}

/** The error for a folder without resources. */
export function withoutResources(folder: string): Error {
  return new Error(`${folder} has no resources; they are in files that end in .yaml or .yml.`)
}

/** The resources of a folder, with all their problems. Rejects with a readable error. */
export async function loadFolder(folder: string, options?: Parameters<typeof loadSnapshot>[1]) {
  const loaded = await loadSnapshot(folder, options).catch(() => undefined)
  if (loaded !== undefined) return loaded
  const found = await stat(folder).catch(() => undefined)
  const why = found?.isFile() ? 'is a file' : 'cannot be read'
  throw new Error(`${folder} ${why}; name a folder of YAML files.`)
}
