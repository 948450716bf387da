/**
 * What a store remembers of a counted response, to count none twice. Pure. Responses are grouped by
 * the minute in which they ended, and forgotten by the minute.
 */

import { createHash } from 'node:crypto'

const minuteMs = 60_000
/** More than the two sources differ about the end of a response. */
const edgeMs = 1_000
const memberBytes = 12

/** The minute in which a response ended, since the epoch. */
export function minuteOf(endedAt: number): number {
  return Math.floor(endedAt / minuteMs)
}

/** The neighbouring minute in which the other source may have seen the end; undefined for most. */
export function neighbourOf(endedAt: number): number | undefined {
  const into = endedAt - minuteOf(endedAt) * minuteMs
  if (into < edgeMs) return minuteOf(endedAt) - 1
  if (into >= minuteMs - edgeMs) return minuteOf(endedAt) + 1
  return undefined
}

/** The first minute that is kept when responses that ended before this time are forgotten. */
export function firstKeptMinute(endedBefore: number): number {
  return minuteOf(endedBefore - edgeMs)
}

const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

/**
 * A request id in 16 characters (96 bits). For a UUID, its random bytes without version and
 * variant: Envoy encodes in the version whether the request is traced.
 */
export function memberOf(id: string): string {
  if (uuid.test(id)) {
    const hex = id.slice(0, 8) + id.slice(9, 13) + id.slice(24)
    return Buffer.from(hex, 'hex').toString('base64url')
  }
  return createHash('sha256').update(id).digest().toString('base64url', 0, memberBytes)
}
