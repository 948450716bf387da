import { useEffect } from 'react'
import type { ServiceState } from '../api.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const everyMs = 60_000
const decided = 'limit-request-decided'

/** Call it after a decision, to update without waiting for the next poll. */
export function noteDecided(): void {
  dispatchEvent(new Event(decided))
}

/**
 * For administrators, the number of open requests for increases, or undefined if unknown. Reloaded when the key
 * changes.
 */
export function useOpenRequests(key: string): number | undefined {
  const { call, me } = useSession()
  const { value, reload } = useLoaded(
    key,
    async () =>
      me.administrator
        ? (await call<ServiceState>('GET', '/v1/admin/state')).open_limit_requests
        : undefined,
    everyMs,
  )
  useEffect(() => {
    addEventListener(decided, reload)
    return () => removeEventListener(decided, reload)
  }, [reload])
  return value
}
