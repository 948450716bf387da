/** The last value of a header that is not blank (contract, 1.2); repeated ones come joined by commas. */
export function lastValue(header: string | undefined): string | undefined {
  return header
    ?.split(',')
    .findLast((value) => value.trim() !== '')
    ?.trim()
}
