/** Recognizes requests from web pages, which must not read our listeners for programs. */

interface Headers {
  readonly host?: string | undefined
  readonly origin?: string | undefined
  readonly 'sec-fetch-site'?: string | readonly string[] | undefined
}

/**
 * Whether a web page may have made this request: browsers mark such requests, unlike those for a typed address. Older
 * ones do not; a page whose name was rebound to this machine then gives itself away by `host`, where the listener is
 * bound to loopback (`boundTo`). On other listeners callers use any names.
 */
export function isFromWebPage(headers: Headers, boundTo: string | undefined): boolean {
  const { host, origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined || (site !== undefined && site !== 'none')) return true
  return host !== undefined && isLoopback(boundTo) && !isOwnName(host)
}

function isLoopback(address: string | undefined): boolean {
  return address !== undefined && /^(127\.|::1$|::ffff:127\.)/.test(address)
}

/** An IP address, which no page can rebind, or `localhost`. */
function isOwnName(host: string): boolean {
  const name = host.replace(/:\d*$/, '').toLowerCase()
  return name === 'localhost' || /^\d{1,3}(\.\d{1,3}){3}$|^\[[0-9a-f:.]+\]$/.test(name)
}
