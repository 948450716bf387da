import type { ApiKey } from '../api.ts'
import { now } from '../clock.ts'
import { Icon } from '../parts/icon.tsx'
import { Link } from '../parts/link.tsx'
import { some } from '../parts/numbers.ts'
import { Time } from '../parts/time.tsx'
import { addressOf } from '../route.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const soonMs = 7 * 86_400_000

/** Whether the key should be replaced now. Ephemeral keys are intended to expire. */
export function expiresSoon({ status, expiresAt, ephemeral }: ApiKey, at = now()): boolean {
  return !ephemeral && status === 'active' && Date.parse(expiresAt ?? '') - at < soonMs
}

/** Warns of the caller's keys that expire soon, regardless of the table's query. Reloaded when `after` changes. */
export function ExpiringKeys({ after }: { readonly after: unknown }) {
  const { call, me } = useSession()
  const { value } = useLoaded(JSON.stringify(after ?? null), () =>
    call<{ readonly data: readonly ApiKey[] }>('POST', '/v1/api-keys/search', {
      filters: { username: me.username, status: ['active'] },
      sort: { by: 'expires_at', order: 'asc' },
      pagination: { limit: 100 },
    }),
  )
  const soon = value?.data.filter((key) => expiresSoon(key)) ?? []
  const [first] = soon
  if (first?.expiresAt == null) return null
  const further = soon.length - 1
  return (
    <div className="banner" role="status">
      <Icon name="clock" />
      <p>
        <b className="breaks">{first.name}</b> expires <Time at={first.expiresAt} isDistance />
        {further > 0 && `, and ${some(further, 'other key', 'other keys')} soon after`}. A key
        cannot be prolonged: make a new one and put it in its place.
      </p>
      {me.credential === 'identity-token' && (
        <Link to={addressOf('keys', { new: '1' })}>Make a new key</Link>
      )}
    </div>
  )
}
