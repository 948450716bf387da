/**
 * An issuer's public keys: fetched in the background, and again when a token names an unknown one. jose's own remote
 * set is not used: its cool-down counts from the last success, so during an outage of the provider every token would
 * cause a fetch, and after its maximum age it drops valid keys.
 */

import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from 'jose'
import { ServiceError } from '../../formats/errors.ts'
import { isObject, type JsonObject } from '../../formats/fields.ts'
import { isTrustworthy } from '../../formats/trustworthy.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { repeat } from '../../runtime/loop.ts'
import { createSingleFlight } from '../../runtime/single-flight.ts'
import type { ReadDocument } from './documents.ts'

/** The keys that fit a header, and the number of changes of the set when they were in it. */
export interface FoundKeys {
  /** Not empty. */
  readonly keys: readonly CryptoKey[]
  readonly generation: number
}

/**
 * Milliseconds from an attempt until a wrong signature may cause another: longer than for an unknown key, because
 * whoever has seen a token can send such ones, and few providers keep the name of a replaced key.
 */
const doubtMs = 30_000

/** Maximum number of keys of a set that may fit one header; each costs a forged token a verification. */
const maxFitting = 8

export type KeySource = ReturnType<typeof createKeySource>

interface KeySourceOptions {
  readonly issuer: string
  /** The URL of its discovery document, if not below the issuer. */
  readonly discoveryUrl?: string | undefined
  readonly readDocument: ReadDocument
  /** How long the last keys stay valid while the provider is unavailable, in milliseconds. */
  readonly graceMs: number
  /** Called once when the provider fails, with the reason, and once when it is back. */
  readonly onUnavailable: (problem: string | undefined) => void
  readonly monotonic?: () => number
  /** Milliseconds between two fetches of the keys. */
  readonly everyMs?: number
  /** Minimum interval between two attempts, successful or not (ms). */
  readonly cooldownMs?: number
}

/** Starts fetching at once. */
export function createKeySource(options: KeySourceOptions) {
  const { issuer, readDocument, graceMs, onUnavailable } = options
  const { discoveryUrl = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration` } = options
  const { everyMs = 600_000, cooldownMs = 10_000, monotonic = () => performance.now() } = options
  const end = new AbortController()
  let keys: ReturnType<typeof createLocalJWKSet> | undefined
  let discovered: JsonObject | undefined
  let lastText = ''
  let generation = 0
  let triedAt = Number.NEGATIVE_INFINITY
  let unavailableSince: number | undefined

  /** Where the keys are, by the discovery document, which is read each time because that may change. */
  function keysUrl(about: JsonObject): string {
    // OpenID Connect Discovery 4.3: otherwise whoever can write below the issuer's host could impersonate it.
    if (about.issuer !== issuer) throw new Error(`${discoveryUrl} describes another issuer`)
    const url = about.jwks_uri
    if (typeof url !== 'string' || !isTrustworthy(url)) {
      throw new Error(`${discoveryUrl} has no jwks_uri that is https`)
    }
    if (issuer.startsWith('https:') && !url.startsWith('https:')) {
      throw new Error(`${discoveryUrl} has a jwks_uri that is not https`)
    }
    return url
  }

  const read = createSingleFlight(async (): Promise<void> => {
    try {
      const about = await readDocument(discoveryUrl, end.signal)
      const found = await readDocument(keysUrl(about), end.signal)
      discovered = about
      const text = JSON.stringify(found)
      if (text !== lastText) {
        keys = createLocalJWKSet(toKeySet(found))
        lastText = text
        generation += 1
      }
      if (unavailableSince !== undefined) onUnavailable(undefined)
      unavailableSince = undefined
    } catch (error) {
      if (end.signal.aborted) return
      if (unavailableSince === undefined) onUnavailable(errorMessage(error))
      unavailableSince ??= monotonic()
    } finally {
      triedAt = monotonic()
    }
  })

  /** Fetches, unless an attempt has just ended. */
  async function refresh(restMs = cooldownMs): Promise<void> {
    if (monotonic() - triedAt >= restMs && !end.signal.aborted) await read()
  }

  function restMs(): number {
    const fromMs = triedAt + (unavailableSince === undefined ? everyMs : cooldownMs)
    return Math.max(0, fromMs - monotonic())
  }

  function isLost(): boolean {
    return unavailableSince !== undefined && monotonic() - unavailableSince > graceMs
  }

  /** Looks in the set as it is now. */
  async function findKnown(header: JWSHeaderParameters): Promise<FoundKeys | undefined> {
    const of = generation
    const found = isLost() || keys === undefined ? [] : await fittingIn(keys, header)
    return found.length === 0 ? undefined : { keys: found, generation: of }
  }

  async function find(header: JWSHeaderParameters): Promise<FoundKeys | undefined> {
    const known = await findKnown(header)
    if (known !== undefined) return known
    await refresh()
    const found = await findKnown(header)
    // During an outage an unknown key is not refused: the provider may have just added it.
    if (found === undefined && (unavailableSince !== undefined || keys === undefined)) {
      throw new ServiceError('identity_unavailable')
    }
    return found
  }

  void repeat({ step: () => refresh(), restMs, onFault() {}, signal: end.signal })
  return {
    /** Whether the provider failed at the last fetch. */
    get isUnavailable(): boolean {
      return unavailableSince !== undefined
    },
    /** Whether the provider has been unavailable for longer than its last keys stay valid. */
    get isLost(): boolean {
      return isLost()
    },
    /** Counts the changes of the set of keys. */
    get generation(): number {
      return generation
    },
    /** The discovery document as last read. */
    discovered: (): JsonObject | undefined => discovered,
    /**
     * The keys for a token's header, or undefined if the provider has none. Rejects with `identity_unavailable` if the
     * known keys do not fit and the provider is unavailable.
     */
    find,
    /** Reads the set again, after a signature by none of the keys that fit. Never rejects. */
    doubt: (): Promise<void> => refresh(doubtMs),
    close: (): void => end.abort(),
  }
}

/** Without entries that are no keys, which would make the others unusable. */
function toKeySet(document: JsonObject): JSONWebKeySet {
  const { keys } = document
  // The function that reads the set refuses anything other than a list.
  return { keys: (Array.isArray(keys) ? keys.filter(isObject) : keys) as JSONWebKeySet['keys'] }
}

/** Providers list two keys of one `kid`, or tokens have none: then several fit. */
async function fittingIn(
  keys: ReturnType<typeof createLocalJWKSet>,
  header: JWSHeaderParameters,
): Promise<readonly CryptoKey[]> {
  try {
    return [await keys(header)]
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return []
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    const found: CryptoKey[] = []
    for await (const key of error) if (found.push(key) === maxFitting) break
    return found
  }
}
