/** What `www-authenticate` says of a credential that is refused (RFC 6750, 3). */

/** The header's value. What stands in quotes is plain ASCII there. */
export function challengeOf(reason: string): string {
  const description = reason.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '?')
  return `Bearer error="invalid_token", error_description="${description}"`
}
