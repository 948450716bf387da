/**
 * What a store remembers of a response that it has counted, so that it counts none twice. Pure.
 * Responses are remembered by the minute they ended in, since they are forgotten by the minute.
 */

import { createHash } from 'node:crypto'

const minuteMs = 60_000
/** By so much the two sources may differ in when a response ended, and more. */
const edgeMs = 1_000
const memberBytes = 12

/** The minute that a response ended in, since the epoch. */
export function minuteOf(endedAt: number): number {
  return Math.floor(endedAt / minuteMs)
}

/** The minute beside it in which the other source may have seen the end; undefined for most. */
export function neighbourOf(endedAt: number): number | undefined {
  const into = endedAt - minuteOf(endedAt) * minuteMs
  if (into < edgeMs) return minuteOf(endedAt) - 1
  if (into >= minuteMs - edgeMs) return minuteOf(endedAt) + 1
  return undefined
}

/** The first minute that is not to be forgotten when what ended before then is. */
export function firstKeptMinute(endedBefore: number): number {
  return minuteOf(endedBefore - edgeMs)
}

const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

/**
 * A request id in 16 characters (96 bits). Of a UUID those of its bytes that are random, without
 * its version and variant: Envoy writes into the former whether the request is traced.
 */
export function memberOf(id: string): string {
  if (uuid.test(id)) {
    const hex = id.slice(0, 8) + id.slice(9, 13) + id.slice(24)
    return Buffer.from(hex, 'hex').toString('base64url')
  }
  return createHash('sha256').update(id).digest().toString('base64url', 0, memberBytes)
}
