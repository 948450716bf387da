/** Which servers may be trusted for identity. */

/** Whether a URL's server is authenticated: by its certificate, or because it is on this machine. */
export function isTrustworthy(url: string): boolean {
  const { protocol, hostname } = URL.parse(url) ?? {}
  if (protocol === 'https:') return true
  return protocol === 'http:' && isLoopback(hostname ?? '')
}

/** Whether a host, from a URL or a setting, is this machine. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/.test(host)
}
