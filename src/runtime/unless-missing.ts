/** For `catch`: undefined where a file or folder is not there; every other failure stays one. */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
