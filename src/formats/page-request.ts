/** Requests of pages in a browser, which may not read our listeners for programs. */

interface Headers {
  readonly host?: string | undefined
  readonly origin?: string | undefined
  readonly 'sec-fetch-site'?: string | readonly string[] | undefined
}

/**
 * Whether a page has made this request, or may have: browsers say so, a person who types the address aside. An
 * older one does not, and a page whose name has come to stand for this machine is of the same site: it gives itself
 * away by that name, where the listener is bound to loopback (`boundTo`). Elsewhere callers use names of their own.
 */
export function isFromPage(headers: Headers, boundTo: string | undefined): boolean {
  const { host, origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined || (site !== undefined && site !== 'none')) return true
  return host !== undefined && isLoopback(boundTo) && !isOwnName(host)
}

function isLoopback(address: string | undefined): boolean {
  return address !== undefined && /^(127\.|::1$|::ffff:127\.)/.test(address)
}

/** An address, which no page can have for its name and send elsewhere, or `localhost`. */
function isOwnName(host: string): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase()
  return name === 'localhost' || /^\d{1,3}(\.\d{1,3}){3}$|^\[[0-9a-f:.]+\]$/.test(name)
}
