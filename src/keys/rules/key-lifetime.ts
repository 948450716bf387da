/** `expiresIn` and `ephemeral` → when a new key expires (contract, 3.2 and 3.2.1). */

import { ServiceError } from '../../formats/errors.ts'
import { dayMs, parseDuration } from '../../formats/time.ts'
import type { Tenant } from '../../kinds/resources.ts'

/** The longest lifetime of an ephemeral key, as in `expiresIn`. */
export const ephemeralMaximum = '1h'
const ephemeralMaximumMs = parseDuration(ephemeralMaximum) as number

/** The longest lifetime of a regular key, in days: the Tenant's, otherwise the setting's. */
export function maxLifetimeDays(tenant: Tenant | undefined, setting: number): number {
  return tenant?.maxExpirationDays ?? setting
}

interface LifetimeRequest {
  /** As in the body: seconds as a number, a duration string, null or undefined. */
  readonly expiresIn: unknown
  readonly ephemeral: boolean
  /** The longest lifetime of a regular key, in days of 24 hours. */
  readonly maximumDays: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

/**
 * When the key expires, in milliseconds since the epoch. By default a regular key lives for the maximum and an
 * ephemeral one for an hour. Throws `invalid_lifetime`, whose message says how to fix it.
 */
export function expiryOf({ expiresIn, ephemeral, maximumDays, now }: LifetimeRequest): number {
  const maximumMs = ephemeral ? ephemeralMaximumMs : maximumDays * dayMs
  if (expiresIn === undefined || expiresIn === null) return now + maximumMs
  const lifetimeMs = readLifetime(expiresIn)
  if (!(lifetimeMs > 0)) throw invalid('expiresIn must be positive.')
  if (lifetimeMs > maximumMs) {
    throw invalid(
      ephemeral
        ? 'expiresIn of an ephemeral key must not exceed the maximum of 1 hour.'
        : `expiresIn exceeds the maximum of ${maximumDays} days.`,
    )
  }
  // Even a lifetime below a millisecond must end after it begins.
  return now + Math.max(1, Math.round(lifetimeMs))
}

/** The longest overlap of a rotation, as in `expiresIn`. */
const maxOverlap = '7d'
const maxOverlapMs = parseDuration(maxOverlap) as number

/**
 * A time of a rotation, written as `expiresIn` is, in milliseconds; 0 and more, `7d` at most.
 * Returns undefined if it is omitted.
 */
export function parseOverlap(field: string, raw: unknown): number | undefined {
  if (raw === undefined || raw === null) return undefined
  const ms = readLifetime(raw, field)
  if (!(ms >= 0)) throw invalid(`${field} must not be negative.`)
  if (ms > maxOverlapMs) throw invalid(`${field} must be at most ${maxOverlap}.`)
  return ms
}

function readLifetime(expiresIn: unknown, field = 'expiresIn'): number {
  if (typeof expiresIn === 'number') return expiresIn * 1_000
  if (typeof expiresIn !== 'string') throw invalid(`${field} must be a string or a number.`)
  // Both are valid durations of zero, which no key can have.
  if (expiresIn === '' || expiresIn === '0') return 0
  if (expiresIn.startsWith('-') && parseDuration(expiresIn.slice(1)) !== undefined) return -1
  const lifetimeMs = parseDuration(expiresIn)
  if (lifetimeMs === undefined) {
    throw invalid(`${field} must be like "30d", "12h", "2h30m" or a number of seconds.`)
  }
  return lifetimeMs
}

function invalid(message: string): ServiceError {
  return new ServiceError('invalid_lifetime', { message })
}
