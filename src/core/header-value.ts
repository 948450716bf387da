/**
 * The last non-blank value of a header (contract, 1.2); repeated headers arrive joined by commas.
 */
export function lastValue(header: string | undefined): string | undefined {
  return header
    ?.split(',')
    .findLast((value) => value.trim() !== '')
    ?.trim()
}
