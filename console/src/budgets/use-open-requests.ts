import { useEffect } from 'react'
import type { ServiceState } from '../api.ts'
import { useSession } from '../session.tsx'
import { useLoaded } from '../use-loaded.ts'

const everyMs = 60_000
const decided = 'limit-request-decided'

/** To be called after a decision, so that the next poll is not waited for. */
export function noteDecided(): void {
  dispatchEvent(new Event(decided))
}

/** For administrators, the number of open requests for increases; undefined: unknown. Reloaded when the key changes. */
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
