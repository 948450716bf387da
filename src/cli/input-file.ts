/** Input of a command: a file, standard input, or a folder of resources. */

import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { loadSnapshot } from '../models/sources/pipeline.ts'

/** The longest input, in MiB; one from a pipe may have no end. */
const mostMiB = 64

/** The text of the file, of standard input if it is `-`, without a byte-order mark. Rejects with a readable error. */
export async function readInputFile(path: string, input: NodeJS.ReadableStream): Promise<string> {
  const chunks: Buffer[] = []
  let left = mostMiB * 2 ** 20
  try {
    for await (const chunk of path === '-' ? input : createReadStream(path)) {
      chunks.push(Buffer.from(chunk))
      left -= chunk.length
      if (left < 0) break
    }
  } catch (error) {
    throw new Error(`${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
  }
  if (left < 0) throw new Error(`${path} is longer than ${mostMiB} MiB.`)
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** The error for a folder without resources. */
export function noResourcesError(folder: string): Error {
  return new Error(
    `${folder} has no resources; they are in files that end in .yaml, .yml or .json.`,
  )
}

/** The resources of a folder, with all their problems. Rejects with a readable error. */
export async function loadFolder(folder: string, options?: Parameters<typeof loadSnapshot>[1]) {
  const loaded = await loadSnapshot(folder, options).catch(() => undefined)
  if (loaded !== undefined) return loaded
  const found = await stat(folder).catch(() => undefined)
  const why = found?.isFile() ? 'is a file' : 'cannot be read'
  throw new Error(`${folder} ${why}; name a folder of YAML files.`)
}
