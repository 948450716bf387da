/** Files in a folder into which others may write: opening one never waits (for a pipe), and reading one is bounded. */

import * as fs from 'node:fs'

/** None of ours is longer. */
const mostText = 1_048_576

/** A descriptor of a file that is there, for reading; throws for anything else, such as a pipe. */
export function openToRead(path: string): number {
  // Without it a pipe is opened only once somebody writes to it, and the process does nothing until then.
  const file = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  if (fs.fstatSync(file).isFile()) return file
  fs.closeSync(file)
  throw new Error(`${path} is not a file`)
}

/** The whole text of a small file; throws for a longer one. */
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
