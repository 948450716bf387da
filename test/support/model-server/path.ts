/** Reads a request target as leniently as all web frameworks together do. */

/**
 * The path that determines the endpoint: the query is dropped, percent-escapes are decoded once, `;params` are dropped,
 * repeated slashes are merged, dot segments are resolved and a trailing slash is ignored. A path that cannot be decoded
 * is not changed. Letter case is preserved, because model ids depend on it; routing ignores it.
 */
export function readPath(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')
  const segments: string[] = []
  for (const segment of decode(path).split('/')) {
    const name = segment.replace(/;.*$/s, '')
    if (name === '..') segments.pop()
    else if (name !== '' && name !== '.') segments.push(name)
  }
  return `/${segments.join('/')}`
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}
