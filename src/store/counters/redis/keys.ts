/** Names of counters in Redis. */

import { crc32 } from '../../../core/formats/base62.ts'

/** Few, because a Cluster needs one script call for each; enough to spread over its nodes. */
const tags = 16

/**
 * The hash tag of a counter: the same for all keys of a subscription and user, so that a request's
 * counters are on one node of a Cluster. These are the first and the last part of a counter's key.
 */
export function tagOf(key: string): string {
  const subscriptionEnd = key.indexOf('\n')
  const modelEnd = key.indexOf('\n', subscriptionEnd + 1)
  const windowEnd = key.indexOf('\n', modelEnd + 1)
  return String(crc32(key.slice(0, subscriptionEnd) + key.slice(windowEnd)) % tags)
}

/** All hash tags of counters. */
export const allTags: readonly string[] = Array.from({ length: tags }, (_, i) => String(i))

/**
 * The prefix of the sets of counted responses, one set for each minute in which they ended. Per
 * journal, because its reader determines when they can be forgotten.
 */
export function seenPrefixOf(tag: string, journal: string): string {
  return `${keyPrefixOf(tag)}seen:${journal}:`
}

/** The hash that describes the store: its epoch, and how far each journal has been counted. */
export function storeKeyOf(tag: string): string {
  return `${keyPrefixOf(tag)}store`
}

/** When a counter was reset; resetScript has the same. */
export function resetKeyOf(key: string): string {
  return `${keyPrefixOf(tagOf(key))}reset:${key}`
}

/** The claim on the journal with this name. */
export function claimKeyOf(journal: string): string {
  return `${keyPrefixOf('journal')}claim:${journal}`
}

const prefixes = new Map<string, string>()

/** The prefix of a counter's key in Redis; the same string object each time, to save memory. */
export function keyPrefixOf(tag: string): string {
  let prefix = prefixes.get(tag)
  if (prefix === undefined) {
    prefix = `tollgate:{${tag}}:`
    prefixes.set(tag, prefix)
  }
  return prefix
}
