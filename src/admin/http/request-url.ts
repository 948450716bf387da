/** Bounds of a URL, before the router and the parser of the query read it. */

import { parse } from 'node:querystring'

/** The longest path in characters, without its query. */
const maxPathLength = 2_048
/** Parameters of a query; the others are ignored. */
const maxKeys = 100

/** The message for a path that `boundPath` has replaced. */
export const pathTooLong = `The path has more than ${maxPathLength.toLocaleString('en')} characters; nothing is served there.`

/**
 * The URL for the router, which takes longer over an escape than over plain text: `/`, where nothing
 * is served, for a path that is too long.
 */
export function boundPath(url: string): string {
  const isShort = url.length <= maxPathLength || url.lastIndexOf('?', maxPathLength) !== -1
  return isShort ? url : '/'
}

/** The parameters of a query. Thousands of names would take longer than other text of their length. */
export function readQuery(query: string): Record<string, string | string[] | undefined> {
  return parse(query, '&', '=', { maxKeys })
}
