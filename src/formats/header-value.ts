/** Values of headers. */

/**
 * The last non-blank value of a header (contract, 1.2); repeated headers arrive joined by commas.
 * Reads from the end, because a header may consist of commas.
 */
export function lastValue(header: string | undefined): string | undefined {
  if (header === undefined) return undefined
  let end = header.length
  while (end > 0 && isBlank(header[end - 1] as string)) end -= 1
  if (end === 0) return undefined
  return header.slice(header.lastIndexOf(',', end - 1) + 1, end).trim()
}

function isBlank(character: string): boolean {
  return character === ',' || character.trim() === ''
}

/** `www-authenticate` for a refused credential (RFC 6750, 3). Its quoted text is plain ASCII. */
export function challengeOf(reason: string): string {
  const description = reason.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '?')
  return `Bearer error="invalid_token", error_description="${description}"`
}
