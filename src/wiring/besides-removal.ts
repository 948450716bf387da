import { dirname } from 'node:path'

/**
 * Passes on all errors besides those of a file of the journal's folder that have one of these codes. By default that is a
 * missing file: the upkeep makes the folder again within seconds, and reports that, or why it cannot.
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
