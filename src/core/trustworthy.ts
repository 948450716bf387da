/** Which servers may tell us whom to believe. */

/** Whether what a URL leads to can be believed: by its certificate, or because it is this machine. */
export function isTrustworthy(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  if (protocol === 'https:') return true
  return protocol === 'http:' && isLoopback(hostname ?? '')
}

/** Whether a host, as a URL or a setting has it, is this machine's own. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/.test(host)
}
