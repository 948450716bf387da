/** Adds the path to errors of a full or read-only disk, because the system's write errors do not name one. */

/** By the code of the error. */
const mends: Readonly<Record<string, string>> = {
  ENOSPC: 'free space there',
  EDQUOT: 'free space there, or raise the quota',
  EROFS: 'its file system is read-only',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
}

/** Runs `write`, which writes this file; its error names the file and the remedy, with the same code. */
export function withPathInErrors(path: string, write: () => void): void {
  try {
    write()
  } catch (error) {
    throw withPathInError(path, error)
  }
}

/** Adds the file's name to an error of the disk; returns other errors unchanged. */
export function withPathInError(path: string, error: unknown): unknown {
  const { code = '' } = error as NodeJS.ErrnoException
  const mend = mends[code]
  if (mend === undefined) return error
  return Object.assign(new Error(`${path} cannot be written (${code}): ${mend}`), { code, path })
}
