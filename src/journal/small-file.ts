/** Reads files in a folder to which others may write: opening never blocks on a pipe, and the length is bounded. */

import * as fs from 'node:fs'

/** Maximum length in bytes. Our files are shorter. */
const mostText = 1_048_576

/** Opens an existing regular file for reading; throws for anything else, such as a pipe. */
export function openToRead(path: string): number {
  // Without O_NONBLOCK, opening a pipe blocks the process until another one opens it for writing.
  const file = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  if (fs.fstatSync(file).isFile()) return file
  fs.closeSync(file)
  throw new Error(`${path} is not a file`)
}

/** Reads a small file whole; throws if it is too large. */
export function readSmallText(path: string): string {
  const file = openToRead(path)
  try {
    const { size } = fs.fstatSync(file)
    if (size > mostText)
      throw new Error(`${path} has ${size} bytes, which is too large for this file`)
    return fs.readFileSync(file, 'utf8')
  } finally {
    fs.closeSync(file)
  }
}
