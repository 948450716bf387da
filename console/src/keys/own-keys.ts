import type { ApiKey } from '../api.ts'
import { useSession } from '../session.tsx'
import { type Loaded, useLoaded } from '../use-loaded.ts'

const everyMs = 60_000

interface OwnKeys {
  /** At most a hundred, the last used first. */
  readonly data: readonly ApiKey[]
  readonly has_more: boolean
}

/** The active keys of the caller. */
export function useOwnKeys(): Loaded<OwnKeys> {
  const { call, me } = useSession()
  const asked = {
    filters: { username: me.username, status: ['active'] },
    sort: { by: 'last_used_at', order: 'desc' },
    pagination: { limit: 100 },
  }
  return useLoaded('', () => call<OwnKeys>('POST', '/v1/api-keys/search', asked), everyMs)
}
