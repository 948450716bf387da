/** For `catch`: undefined if a file or folder does not exist; rethrows every other failure. */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
