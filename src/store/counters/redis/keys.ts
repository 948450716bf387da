/** Names of counters in Redis. */

import { crc32 } from '../../../core/base62.ts'

/** Few, since a Cluster gets one script call for each; enough to spread over its nodes. */
const tags = 16

/**
 * The hash tag of a counter: one for all keys of a subscription and user, so that a request's
 * counters are on one node of a Cluster. They are a counter key's first part and its last.
 */
export function tagOf(key: string): string {
  const subscriptionEnd = key.indexOf('\n')
  const modelEnd = key.indexOf('\n', subscriptionEnd + 1)
  const windowEnd = key.indexOf('\n', modelEnd + 1)
  return String(crc32(key.slice(0, subscriptionEnd) + key.slice(windowEnd)) % tags)
}

/** Every hash tag that counters have. */
export const allTags: readonly string[] = Array.from({ length: tags }, (_, i) => String(i))

/**
 * What the sets of responses counted begin with, one for each minute in which they ended: those
 * that one journal tells of, since its reader says when they can be forgotten.
 */
export function seenPrefixOf(tag: string, journal: string): string {
  return `${keyPrefixOf(tag)}seen:${journal}:`
}

/** What Redis says of itself: a hash of its epoch, and how far each journal has been counted. */
export function storeKeyOf(tag: string): string {
  return `${keyPrefixOf(tag)}store`
}

/** Who reads the journal of this name. */
export function claimKeyOf(journal: string): string {
  return `${keyPrefixOf('journal')}claim:${journal}`
}

const prefixes = new Map<string, string>()

/** What a counter's key begins with in Redis; the same string each time, for memory's sake. */
export function keyPrefixOf(tag: string): string {
  let prefix = prefixes.get(tag)
  if (prefix === undefined) {
    prefix = `tollgate:{${tag}}:`
    prefixes.set(tag, prefix)
  }
  return prefix
}
