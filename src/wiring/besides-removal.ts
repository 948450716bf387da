import { dirname } from 'node:path'

/**
 * Passes on all errors, except errors about a file in the journal's folder with one of these codes, by default a
 * missing file: the upkeep creates the folder again within seconds, and reports that, or why it cannot.
 */
export function besidesRemoval(
  journal: string,
  onFault: (error: unknown) => void,
  known: readonly string[] = ['ENOENT'],
): (error: unknown) => void {
  const folder = `${dirname(journal)}/`
  return (error) => {
    const { code = '', path } = error as NodeJS.ErrnoException
    if (!known.includes(code) || path?.startsWith(folder) !== true) onFault(error)
  }
}
