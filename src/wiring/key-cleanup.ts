/** Periodic cleanup: expired ephemeral keys, old rows of the revocation log and of repeated requests. */

import { serviceActor } from '../audit/event.ts'
import { auditAct } from '../audit/service-events.ts'
import { ServiceError } from '../formats/errors.ts'
import { purgeRevocations } from '../keys/revocations/revocation-log.ts'
import { repeat } from '../runtime/loop.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'

/** From the end of a cleanup of keys to the next one (contract, 3.13). */
const cleanupEveryMs = 900_000

/** Cleans until the service stops. Returns the last count of keys about to expire, or undefined before the first. */
export function startKeyCleanup(
  { log, audit, clock, onFault, stops }: Context,
  { pool }: Database,
  { keys, keeper, idempotency }: Pick<Keys, 'keys' | 'keeper' | 'idempotency'>,
): () => number | undefined {
  let endingSoon: number | undefined
  const ending = new AbortController()
  const isCleaned = repeat({
    async step() {
      const clean = () => keys.deleteExpiredEphemeral(clock())
      const event = { action: 'key.cleanup', actor: serviceActor } as const
      const deleted = await auditAct(audit, event, clean, (count) => count)
      await purgeRevocations(pool)
      await keeper.clean()
      await idempotency.purge(clock())
      endingSoon = await keys.countEndingSoon(clock())
      if (deleted > 0) log.info({ code: 'keys_deleted', deleted }, 'expired ephemeral keys deleted')
    },
    restMs: cleanupEveryMs,
    // The database or the audit trail is unavailable, which is in the log already.
    onFault: (error) => error instanceof ServiceError || onFault(error),
    signal: ending.signal,
  })
  stops.push(
    timedStop('the cleanup of keys', () => {
      ending.abort()
      return isCleaned
    }),
  )
  return () => endingSoon
}
