import type { OwnRefusalList } from '../api.ts'
import { useSession } from '../session.tsx'
import { type Loaded, useLoaded } from '../use-loaded.ts'

const everyMs = 30_000

/** The caller's own last refusals. */
export function useOwnRefusals(): Loaded<OwnRefusalList> {
  const { call } = useSession()
  return useLoaded('', () => call<OwnRefusalList>('GET', '/v1/refusals?limit=20'), everyMs)
}
