import { dirname } from 'node:path'

/**
 * Passes on the errors that the journal's upkeep does not report itself. It reports those of files in the journal's folder with a
 * code of `known`: by default a missing file, because it makes the folder again within seconds, and reports that, or why it cannot.
 * While the folder `isUnusable`, which it reports, each of its errors is a consequence.
 */
export function unreportedFaults(
  journal: string,
  onFault: (error: unknown) => void,
  known: readonly string[] = ['ENOENT'],
  isUnusable: () => boolean = () => false,
): (error: unknown) => void {
  const folder = `${dirname(journal)}/`
  return (error) => {
    const { code = '', path } = error as NodeJS.ErrnoException
    const isReported = known.includes(code) || isUnusable()
    if (!isReported || !`${path}/`.startsWith(folder)) onFault(error)
  }
}
