/** Names of any length in a bounded form, for what stores and repeats them. */

import { hash } from 'node:crypto'

/** UTF-16 code units. */
export const maxNameLength = 300

const digestLength = 32

/**
 * The name itself, or if it is longer than `maxNameLength` its beginning and a digest of the whole.
 * Without NUL and lone surrogates, which databases do not store.
 */
export function cutName(name: string): string {
  const clean = name.toWellFormed().replaceAll('\0', '\uFFFD')
  if (clean.length <= maxNameLength) return clean
  const digest = hash('sha256', name.toWellFormed(), 'hex').slice(0, digestLength)
  return `${clean.slice(0, maxNameLength - digestLength - 1).toWellFormed()}…${digest}`
}
