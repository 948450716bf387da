/** API keys: the table, the cache, and the follower of revocations, which also reports increases of limits. */

import { recordProcessStart } from '../cluster/in-force/report-rows.ts'
import { createCachedApiKeys, minGraceMs } from '../keys/cached-api-keys.ts'
import { createIdempotency } from '../keys/idempotency.ts'
import { createPostgresApiKeys } from '../keys/postgres-api-keys.ts'
import { createPropagationWatch } from '../keys/revocations/propagation.ts'
import { createRevocationFollower } from '../keys/revocations/revocation-follower.ts'
import { createRevocationKeeper } from '../keys/revocations/revocation-keeper.ts'
import { endedSecrets } from '../keys/revocations/revocation-log.ts'
import { followerLogging, keeperLogging } from '../keys/revocations/revocation-logging.ts'
import type { ApiKeyTable } from '../keys/store.ts'
import { startUseRecorder } from '../keys/use-recorder.ts'
import { createActiveIncreases } from '../ratelimit/increases/active-increases.ts'
import { createIncreaseStore } from '../ratelimit/increases/postgres-increases.ts'
import { timedStop } from '../runtime/stops.ts'
import type { Config } from '../settings/config.ts'
import { openPool } from '../store/postgres/postgres.ts'
import { untilAvailable } from '../store/postgres/until-available.ts'
import type { ProcessTable } from '../table/process-table.ts'
import { callBounds, createDurations } from '../telemetry/durations.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import type { Pods } from './pods.ts'

export type Keys = Awaited<ReturnType<typeof openKeys>>

/** Between two polls of revocations, milliseconds: the cache is trusted for one second. */
const revalidateMs = 250
/** How long a read of increases may take, in milliseconds: after a slow poll the cache is no longer trusted. */
const increasesMs = 300
/** The keys used last that are cached before readiness. */
const keysWarmed = 10_000

/** About 320 bytes each, hence 32 MB; a key in use beyond them costs a look-up. */
const maxCachedKeys = 100_000

/** How long keys are trusted that the database does not confirm. */
export function outageGraceMs({ keyCacheOutageGraceMs }: Config): number {
  return Math.max(minGraceMs, keyCacheOutageGraceMs)
}

/** Starts to follow revocations before anything is cached. */
export async function openKeys(
  context: Context,
  { pool, url }: Database,
  decisions: Pick<ProcessTable, 'withdraw' | 'withdrawAll' | 'suspend' | 'resume'>,
  pods: Pods,
) {
  const { config, log, clock, onFault, stops } = context
  const graceMs = outageGraceMs(config)
  // A separate connection, so that no other query delays the follower.
  const own = openPool({ url, connections: 1, applicationName: 'tollgate revocations' })
  const increases = createActiveIncreases(createIncreaseStore(pool), clock)
  const ownIncreases = createIncreaseStore(own, increasesMs)
  const follower = createRevocationFollower({
    pool: own,
    url,
    name: config.replicaName,
    place: config.replicaPlace,
    pod: pods?.own,
    zones: process.versions.tz,
    ...(pods && { onSilentPods: pods.check }),
    everyMs: revalidateMs,
    servesMs: graceMs,
    // Called only after `start`, when `keys` and `keeper` exist.
    evict(hashes, ended) {
      keys.evict(hashes)
      keeper.note(ended)
    },
    // The database may have lost data.
    async forgetAll() {
      keys.forgetAll()
      keeper.replay()
      await decisions.suspend()
      decisions.resume()
    },
    readIncreases: () => increases.follow(ownIncreases),
    ...followerLogging(log),
    onFault,
  })
  const keeper = createRevocationKeeper({
    pool,
    clock,
    folder: config.revocationLogDir,
    name: config.replicaName,
    evict: (hashes) => keys.evict(hashes),
    ...keeperLogging(log, onFault),
  })
  const postgres = createPostgresApiKeys(pool)
  const queries = createDurations(callBounds)
  const table: ApiKeyTable = {
    ...postgres,
    async findByHashes(hashes) {
      const begin = performance.now()
      try {
        return await postgres.findByHashes(hashes)
      } finally {
        queries.observe(performance.now() - begin)
      }
    },
  }
  const keys = createCachedApiKeys(table, {
    entries: maxCachedKeys,
    outageGraceMs: graceMs,
    freshness: follower,
    endOf: keeper.endOf,
    onRevived: keeper.replay,
    onForgotten: (hashes) => (hashes ? decisions.withdraw(hashes) : decisions.withdrawAll()),
  })
  stops.push(timedStop('the revocation log', () => keeper.stop()))
  stops.push(
    timedStop('the follower of revocations', async (graceMs) => {
      await follower.stop()
      await own.end(graceMs)
    }),
  )
  // Before the process is listed as serving.
  await untilAvailable(() => recordProcessStart(pool, follower.id), context)
  await untilAvailable(() => follower.start(), context)
  // From here on the follower misses no logged revocation; the keeper reads earlier ones.
  await keeper.start()
  const propagation = createPropagationWatch({
    pool,
    id: follower.id,
    others: () => follower.stats().others,
    keep: (revoked) => keeper.keep(endedSecrets(revoked).map((key) => ({ ...key, at: clock() }))),
    keptAs: `the revocation log of ${config.replicaName}`,
    onUnlogged: (keys) =>
      log.error(
        { code: 'revocations_unlogged', keys },
        'cannot confirm revocations: the triggers on api_keys did not log them',
      ),
  })
  await keys.warm(keysWarmed, clock()).then(
    (keys) => log.debug({ keys }, 'cached the most recently used keys'),
    (error: unknown) =>
      log.warn(
        { code: 'key_cache_cold', cause: String(error) },
        'cannot read the most recently used keys: the key cache starts empty',
      ),
  )
  const lastUsed = startUseRecorder({ write: (uses) => table.noteUses(uses), onFault })
  stops.push(timedStop('the last uses of keys', (graceMs) => lastUsed.stop(graceMs)))
  return {
    keys,
    increases,
    follower,
    propagation,
    keeper,
    idempotency: createIdempotency(pool),
    queries,
    noteUse: lastUsed.note,
  }
}
