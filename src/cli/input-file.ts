/** What a command reads from a file or standard input. */

import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'

/** The text of the file, of standard input if it is `-`. Rejects with a readable error. */
export async function readInput(path: string, input: NodeJS.ReadableStream): Promise<string> {
  if (path === '-') return await text(input)
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${path} cannot be read (${error.code}).`)
  })
}
