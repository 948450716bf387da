/**
 * The API key: its string form and hash (contract, 3.3), its stored record, and the status of a
 * record at an instant.
 *
 * `sk-<marker>-<id>_<secret>`, id and secret being base62 of 12 and 32 random bytes. A key with our
 * own marker ends in six base62 characters of CRC-32 over everything before them, so mistyped and
 * invented keys are refused without a look-up. Only the hash is ever stored.
 */

import { hash } from 'node:crypto'
import {
  checksumLength,
  crc32,
  endsInChecksum,
  isBase62,
  toBase62,
  toChecksum,
} from '../../formats/base62.ts'
import type { Labels } from '../../formats/labels.ts'
import type { KeyCaps } from './key-caps.ts'

/** Sizes of the random parts, in bytes. */
export const keyIdBytes = 12
export const keySecretBytes = 32

/** Longer than any key that we or the original issued; a longer credential is not hashed. */
const maxKeyLength = 256

/** The stored record of a key. Instants are milliseconds since the epoch. */
export interface ApiKeyRecord {
  readonly id: string
  readonly hash: string
  /** Its printable beginning (`printablePrefixOf`); null if unknown, as for imported keys. */
  readonly prefix: string | null
  readonly user: string
  /** The owner's groups when the key was created. They apply for the life of the key. */
  readonly groups: readonly string[]
  readonly name: string
  readonly description: string
  readonly labels: Labels
  readonly caps: KeyCaps
  /** Bare name of the subscription that the key is bound to. */
  readonly subscription: string
  readonly status: ApiKeyStatus
  readonly ephemeral: boolean
  readonly createdAt: number
  /** Null if never (imported keys). */
  readonly expiresAt: number | null
  /** When it was revoked, if known. */
  readonly revokedAt?: number
  readonly lastUsedAt: number | null
  /** The secret that the last rotation replaced, if it worked for a while longer. */
  readonly previous?: PreviousSecret
}

export interface PreviousSecret {
  readonly hash: string
  readonly prefix: string | null
  readonly endsAt: number
  readonly lastUsedAt: number | null
}

export const keyStatuses = ['active', 'revoked', 'expired'] as const
export type ApiKeyStatus = (typeof keyStatuses)[number]

/** The accepted markers: ours has a checksum, the others have none. */
export interface KeyMarkers {
  readonly own: string
  readonly accepted: ReadonlySet<string>
}

/**
 * Builds a key from random bytes (12 for the id, 32 for the secret): the plaintext (shown once, never stored), its hash
 * and its printable beginning.
 */
export function mintKey(marker: string, idBytes: Uint8Array, secretBytes: Uint8Array) {
  const id = toBase62(idBytes)
  const unsigned = `sk-${marker}-${id}_${toBase62(secretBytes)}`
  const key = unsigned + toChecksum(crc32(unsigned))
  const secret = key.slice(key.indexOf('_') + 1)
  return { key, hash: hashOf(id, secret), prefix: `sk-${marker}-${id.slice(0, 12)}...` }
}

/** Characters of the id in a stored prefix: 6 of 16 or 17, and none of the secret. */
const prefixIdLength = 6

/**
 * `sk-tg-` and the first six characters of the id, from a key or from a shorter beginning of one.
 * Safe to log. Returns undefined if the text is neither.
 */
export function printablePrefixOf(key: string): string | undefined {
  return new RegExp(`^sk-[a-z0-9]{1,16}-[0-9A-Za-z]{${prefixIdLength}}`).exec(key)?.[0]
}

/** Whether a bearer value is an API key rather than an identity token, by its form. */
export function looksLikeKey(credential: string): boolean {
  return credential.startsWith('sk-')
}

/**
 * The hash under which a key is stored. Returns undefined if no look-up is needed: wrong form, a marker
 * that is not accepted, or a wrong checksum.
 */
export function hashOfKey(key: string, markers: KeyMarkers): string | undefined {
  if (key.length > maxKeyLength || !key.startsWith('sk-')) return undefined
  const markerEnd = key.indexOf('-', 3)
  const idEnd = key.indexOf('_', markerEnd + 1)
  if (markerEnd < 0 || idEnd < 0) return undefined
  if (!isBase62(key, markerEnd + 1, idEnd) || !isBase62(key, idEnd + 1)) return undefined
  const marker = key.slice(3, markerEnd)
  if (marker === markers.own) {
    if (key.length - idEnd - 1 <= checksumLength) return undefined
    if (!endsInChecksum(key)) return undefined
  } else if (!markers.accepted.has(marker)) {
    return undefined
  }
  return hashOf(key.slice(markerEnd + 1, idEnd), key.slice(idEnd + 1))
}

/** Lower-case hex SHA-256 of id, NUL, secret, as in the original service. */
function hashOf(id: string, secret: string): string {
  return hash('sha256', `${id}\0${secret}`, 'hex')
}

/** A key's end is announced at most this long before it: 7 days. */
const maxNoticeMs = 604_800_000

type Lifetime = Pick<ApiKeyRecord, 'createdAt' | 'expiresAt'>

/** Whether a key's end is near: within a tenth of its lifetime, and within 7 days. Also true after it has ended. */
export function endsSoon(key: Lifetime, now: number): boolean {
  return now >= endsSoonFrom(key)
}

/** From when on a key's end is near, in milliseconds since the epoch, or Infinity if it never ends. */
export function endsSoonFrom({ createdAt, expiresAt }: Lifetime): number {
  if (expiresAt === null) return Number.POSITIVE_INFINITY
  return expiresAt - Math.min((expiresAt - createdAt) / 10, maxNoticeMs)
}

/** The effective status: an active record is expired after its expiry. */
export function statusAt(
  record: Pick<ApiKeyRecord, 'status' | 'expiresAt'>,
  now: number,
): ApiKeyStatus {
  if (record.status !== 'active') return record.status
  return record.expiresAt !== null && now >= record.expiresAt ? 'expired' : 'active'
}
