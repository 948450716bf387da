/** API keys: the table, the cache, and the follower of revocations. */

import { auditCleanup } from '../audit/service-events.ts'
import { part } from '../runtime/stops.ts'
import type { Config } from '../settings/config.ts'
import {
  type CachedApiKeys,
  createCachedApiKeys,
  minGraceMs,
} from '../store/api-keys/cached-api-keys.ts'
import { startCleanupSchedule } from '../store/api-keys/cleanup-schedule.ts'
import { type LastUsed, startLastUsed } from '../store/api-keys/last-used.ts'
import { createPostgresApiKeys } from '../store/api-keys/postgres-api-keys.ts'
import type { ApiKeyTable } from '../store/api-keys.ts'
import { createIdempotency, type Idempotency } from '../store/idempotency.ts'
import { noteStart } from '../store/in-force/table.ts'
import { openPool } from '../store/postgres/postgres.ts'
import type { Sql } from '../store/postgres/sql.ts'
import { untilAnswered } from '../store/postgres/until-answered.ts'
import { createPropagationWatch, type PropagationWatch } from '../store/revocations/propagation.ts'
import {
  createRevocationFollower,
  type RevocationFollower,
} from '../store/revocations/revocation-follower.ts'
import {
  createRevocationKeeper,
  type RevocationKeeper,
} from '../store/revocations/revocation-keeper.ts'
import { purgeRevocations, secretsOf } from '../store/revocations/revocation-log.ts'
import { callBounds, createDurations, type Durations } from '../telemetry/durations.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'
import { openPods } from './pods.ts'

export interface Keys {
  readonly keys: CachedApiKeys
  readonly follower: RevocationFollower
  readonly propagation: PropagationWatch
  readonly keeper: RevocationKeeper
  readonly idempotency: Idempotency
  readonly noteUse: LastUsed['note']
  /** Keys whose end is near, as last counted; undefined: not yet. */
  readonly endingSoon: () => number | undefined
  /** Durations of key look-ups. */
  readonly queries: Durations
}

/** The most ids in one log line. */
const idsShown = 20
/** Between two polls of revocations, milliseconds: the cache is trusted for one second. */
const revalidateMs = 250
/** The keys used last that are cached before readiness. */
const keysWarmed = 10_000

/** How long keys are trusted that the database does not confirm. */
export function outageGraceMs({ keyCacheOutageGraceMs }: Config): number {
  return Math.max(minGraceMs, keyCacheOutageGraceMs)
}

/** Starts to follow revocations before anything is cached. */
export async function openKeys(context: Context, { pool, url }: Database): Promise<Keys> {
  const { config, log, audit, clock, onFault, stops } = context
  const graceMs = outageGraceMs(config)
  // A separate connection, so that no other query delays the follower.
  const own = openPool({ url, connections: 1, applicationName: 'tollgate revocations' })
  const pods = openPods(context, pool)
  const follower = createRevocationFollower({
    pool: own,
    url,
    name: config.replicaName,
    place: config.replicaPlace,
    pod: pods?.own,
    ...(pods && { onSilentPods: pods.check }),
    everyMs: revalidateMs,
    servesMs: graceMs,
    evict(hashes, ended) {
      keys.evict(hashes)
      keeper.note(ended)
    },
    // The database may have lost data.
    forgetAll() {
      keys.forgetAll()
      keeper.replay()
    },
    onUnavailable: (cause) =>
      cause === undefined
        ? log.info('Postgres is back')
        : log.error({ cause: String(cause) }, 'Postgres is out of reach: cached keys stay valid'),
    onTriggersOff: (names) =>
      names.length === 0
        ? log.info('the triggers on api_keys are on again: revocations are logged')
        : log.error(
            { triggers: names },
            'triggers on api_keys are off or missing, so no revocation is logged: until they are enabled, cached keys stay valid as in an outage of the database, and all others get 503',
          ),
    onSilent: (names) =>
      names.length === 0
        ? log.info('no process is silent any more')
        : log.warn(
            { silent: names },
            'processes have not reported for 5 s: they hang, are cut off from the database, or were killed; revocations wait for them',
          ),
    onFault,
  })
  const keeper = createKeeper(context, pool, (hashes) => keys.evict(hashes))
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
    entries: config.keyCacheEntries,
    outageGraceMs: graceMs,
    freshness: follower,
    endOf: keeper.endOf,
    onRevived: keeper.replay,
  })
  stops.push(part('the revocation log', () => keeper.stop()))
  stops.push(
    part('the follower of revocations', async (graceMs) => {
      await follower.stop()
      await own.end(graceMs)
    }),
  )
  // Before the process is listed as serving.
  await untilAnswered(() => noteStart(pool, follower.id), context)
  await untilAnswered(() => follower.start(), context)
  // From here on nothing that is logged is missed; what was logged before is read by the keeper.
  await keeper.start()
  const propagation = createPropagationWatch({
    pool,
    id: follower.id,
    others: () => follower.stats().others,
    keep: (revoked) => keeper.keep(secretsOf(revoked).map((key) => ({ ...key, at: clock() }))),
    keptAs: `the revocation log of ${config.replicaName}`,
    onUnlogged: (keys) =>
      log.error({ keys }, 'revoked keys were not in the log of revocations: are its triggers off?'),
  })
  await keys.warm(keysWarmed, clock()).then(
    (keys) => log.debug({ keys }, 'the most recently used keys are cached'),
    (error: unknown) => log.warn({ cause: String(error) }, 'no key is remembered from before'),
  )
  const lastUsed = startLastUsed({ write: (uses) => table.noteUses(uses), onFault })
  stops.push(part('the last uses of keys', (graceMs) => lastUsed.stop(graceMs)))
  const idempotency = createIdempotency(pool)
  let endingSoon: number | undefined
  const cleanup = startCleanupSchedule({
    async run() {
      const deleted = await auditCleanup(audit, () => keys.deleteExpiredEphemeral(clock()))
      await purgeRevocations(pool)
      await keeper.clean()
      await idempotency.purge(clock())
      endingSoon = await keys.countEndingSoon(clock())
      return deleted
    },
    onDeleted: (deleted) => log.info({ deleted }, 'expired ephemeral keys deleted'),
    onFault,
  })
  stops.push(part('the cleanup of keys', () => cleanup.stop()))
  return {
    ...{ keys, follower, propagation, keeper, idempotency, queries },
    noteUse: lastUsed.note,
    endingSoon: () => endingSoon,
  }
}

/** Keeps revocations outside of the database. */
function createKeeper(
  { config, log, clock, onFault }: Context,
  pool: Sql,
  evict: (hashes: readonly string[]) => void,
): RevocationKeeper {
  return createRevocationKeeper({
    pool,
    folder: config.revocationLogDir,
    name: config.replicaName,
    clock,
    evict,
    onReplayed: (ids) =>
      log.warn(
        { keys: ids.length, first: ids.slice(0, idsShown) },
        'the database is older than its revocations, as after a restore: keys that it had as active again are revoked again; keys made after its backup stay refused',
      ),
    onBroken: (file, lines) =>
      log.warn({ file, lines }, 'lines of a revocation log cannot be read'),
    onWriting: (error) =>
      error === undefined
        ? log.info('the revocation log is written again')
        : log.error(
            { cause: String(error) },
            'REVOCATION_LOG_DIR cannot be written: revocations hold, and are pending',
          ),
    onFault,
  })
}
