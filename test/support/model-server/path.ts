/** Reads a request target as forgivingly as web frameworks do, taken together. */

/**
 * The path a request is served by: the query is dropped, percent-escapes are decoded once,
 * `;params` are dropped, repeated slashes are one, dot segments are resolved and a trailing
 * slash is ignored. A path that cannot be decoded stays as it was written. Letter case is kept
 * here (model ids have it); routing ignores it.
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
