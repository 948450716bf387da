/** Names of counters, their windows and the markers of writers in Redis. */

import { crc32 } from '../../formats/base62.ts'
import { holdSubjectOf, parseCounterKey } from '../rules/counter-key.ts'
import type { CounterWindow } from '../rules/windows.ts'

/** Few, because a Cluster needs one script call for each; enough to spread over its nodes. */
const tags = 16

/** The hash tag of a counter, by its key: in a Cluster all counters of a subject are on one node. */
function tagOf(key: string): string {
  return String(crc32(holdSubjectOf(parseCounterKey(key))) % tags)
}

/**
 * How keys are spread: a single server gets all in one call; in a Cluster a script may access only keys with the same
 * hash tag.
 */
export function hashTags(isCluster: boolean) {
  if (!isCluster) return { tags: ['all'], tagOf: () => 'all' }
  return { tags: Array.from({ length: tags }, (_, i) => String(i)), tagOf }
}

/** The key under which versions before per-gateway sums have the tokens of a counter, until its window ends. */
export function oldCounterKey(key: string): string {
  return `tollgate:{${tagOf(key)}}:${key}`
}

/** The key of the note that names the window in which these tokens count. */
export function oldWindowKey(key: string): string {
  return `tollgate:{${tagOf(key)}}:old:${key}`
}

/** The key of the hash with the sums of a window, by gateway. */
export function windowKey(tag: string, { id }: Pick<CounterWindow, 'id'>): string {
  return `tollgate:{${tag}}:w:${id}`
}

/** The key of the last mark of a gateway's writer (sums/writer-mark.ts) for this hash tag. */
export function writerMarkKey(tag: string, gateway: string): string {
  return `tollgate:{${tag}}:mark:${gateway}`
}
