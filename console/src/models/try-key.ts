/** The keys with which models are tried: ephemeral ones, one per subscription, in memory only. */

import type { ApiKey, CreatedKey } from '../api.ts'
import { now } from '../clock.ts'
import type { Session } from '../session.tsx'

/** The label of these keys, by which the table of keys recognizes them. */
const madeHere = { 'made-by': 'console' }

export function isMadeHere({ ephemeral, labels }: ApiKey): boolean {
  return ephemeral && labels?.['made-by'] === madeHere['made-by']
}

const madeIn = new WeakMap<Session, Map<string, CreatedKey>>()

/** A key that is valid for at least a minute. The session's own credential if that is a key. */
export async function tryKeyOf(session: Session, subscription: string): Promise<string> {
  if (session.ownKey !== undefined) return session.ownKey
  const made = madeIn.get(session) ?? new Map<string, CreatedKey>()
  madeIn.set(session, made)
  const known = made.get(subscription)
  if (known && Date.parse(known.expiresAt ?? '') > now() + 60_000) return known.key
  const chosen = subscription !== '' && { subscription }
  const body = { name: 'Tried in the console', ...chosen, ephemeral: true, labels: madeHere }
  const key = await session.call<CreatedKey>('POST', '/v1/api-keys', body)
  made.set(subscription, key)
  return key.key
}

/** Discards the key of a subscription, which may have been revoked. */
export function forgetTryKey(session: Session, subscription: string): void {
  madeIn.get(session)?.delete(subscription)
}

/**
 * Revokes the keys that this page has created for the user, including before a reload and in other tabs, which create
 * new ones. Never rejects: keys that cannot be revoked now expire within the hour.
 */
export async function endTryKeys(session: Session): Promise<void> {
  if (session.ownKey !== undefined) return
  madeIn.delete(session)
  const { username } = session.me
  const filters = { username, status: ['active'], includeEphemeral: true, labelsContain: madeHere }
  const search = { filters, pagination: { limit: 100 } }
  const found = session.call<{ readonly data: readonly ApiKey[] }>(
    'POST',
    '/v1/api-keys/search',
    search,
  )
  const { data } = await found.catch(() => ({ data: [] }))
  const made = data.filter(isMadeHere)
  await Promise.allSettled(made.map(({ id }) => session.call('DELETE', `/v1/api-keys/${id}`)))
}
