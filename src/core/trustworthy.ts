/** Which servers may tell us whom to believe. */

/** Whether what a URL leads to can be believed: by its certificate, or because it is this machine. */
export function isTrustworthy(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  if (protocol === 'https:') return true
  return protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname ?? '')
}
