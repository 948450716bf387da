/** The `www-authenticate` header for a refused credential (RFC 6750, 3). */

/** The header's value. Its quoted text is plain ASCII. */
export function challengeOf(reason: string): string {
  const description = reason.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '?')
  return `Bearer error="invalid_token", error_description="${description}"`
}
