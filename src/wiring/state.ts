/** The state of this process and of its dependencies, read from its parts: for probes, and for administrators. */

import type { ServiceState } from '../admin/operation/read-state.ts'
import { listReplicas } from '../cluster/replicas.ts'
import { readVersion } from '../runtime/package-root.ts'
import { ping } from '../store/postgres/postgres.ts'
import type { Context } from './context.ts'
import { outageGraceMs } from './keys.ts'
import type { ServiceParts } from './parts.ts'

export type State = ReturnType<typeof openState>

/** `isReady`: whether requests may be sent here. */
export function openState({ config, audit }: Context, parts: ServiceParts, isReady: () => boolean) {
  const { resources, tokens, discovery, telemetry } = parts
  const { follower, propagation, keeper } = parts.keyParts
  const { pool } = parts.database
  // Undefined without a journal.
  const { sums: journal, holds } = parts.counterParts
  // Otherwise the counters are in memory, of this gateway alone.
  const redis = config.redisUrl === undefined ? undefined : journal
  const version = readVersion()

  const isRedisAway = (): boolean => (redis?.isUnavailable || holds.isRefused) === true

  /** Names of the unavailable parts. */
  async function degraded(): Promise<string[]> {
    // Wrong owners and modes matter only once lines are missing.
    const problems = journal?.problems.filter((problem) => problem !== 'mismatch') ?? []
    return [
      // A database whose triggers are off responds, but is not used.
      ...((await ping(pool)) && follower.state() !== 'unavailable' ? [] : ['database']),
      ...(isRedisAway() ? ['redis'] : []),
      ...(follower.stats().silent.length > 0 ? ['replicas'] : []),
      ...(follower.stats().otherZones.length > 0 ? ['time-zones'] : []),
      ...(keeper.stats().failing ? ['revocation-log'] : []),
      ...(audit.isFailing ? ['audit'] : []),
      // Both may report `cluster`.
      ...new Set([...tokens.degraded(), ...resources.degraded()]),
      ...(problems.length > 0 ? ['journal'] : []),
    ]
  }

  async function replicas(): Promise<Pick<ServiceState, 'replicas'>> {
    const found = await listReplicas(pool).catch(() => undefined)
    if (found === undefined) return {}
    return {
      replicas: found.map(({ id, name, place, zones, unseenMs, servesMs, unread }) => ({
        name,
        place,
        ...(zones !== null && { time_zones: zones }),
        answers: id === follower.id,
        unseen_seconds: unseenMs / 1_000,
        serves_seconds: servesMs / 1_000,
        ...(unread !== null && { unread_revocations: unread }),
      })),
    }
  }

  return {
    isReady,
    degraded,
    async read(): Promise<ServiceState> {
      const [unavailable, listed] = await Promise.all([degraded(), replicas()])
      const { models, policies, subscriptions } = discovery.snapshot()
      const { confirmed, pending, lastMs } = propagation.stats()
      const { ageMs } = follower.stats()
      const firstBytes = telemetry.firstBytes()
      const table = parts.table.stats()
      return {
        replica: config.replicaName,
        version,
        ready: isReady(),
        degraded: unavailable,
        resources: {
          models: models.size,
          policies: policies.size,
          subscriptions: subscriptions.size,
          problems: resources.problems().length,
          waiting_models: resources.modelsWaiting(),
          age_seconds: resources.published().ageS,
        },
        ...listed,
        revocations: {
          confirmed,
          pending,
          log_failing: keeper.stats().failing,
          ...(lastMs !== undefined && { last_confirmation_seconds: lastMs / 1_000 }),
        },
        database: {
          available: !unavailable.includes('database'),
          ...(Number.isFinite(ageMs) && { key_age_seconds: ageMs / 1_000 }),
          grace_seconds: outageGraceMs(config) / 1_000,
        },
        ...(redis && {
          redis: {
            available: !isRedisAway(),
            unflushed: redis.unflushed,
            losses: redis.losses,
          },
        }),
        uncounted_calls: telemetry.uncountedCalls(),
        ...(firstBytes && {
          first_byte: {
            responses: firstBytes.responses,
            median_seconds: firstBytes.medianMs / 1_000,
            p95_seconds: firstBytes.p95Ms / 1_000,
          },
        }),
        ...(table && {
          decision_table: {
            open: table.isOpen,
            records: table.records.used,
            room: table.records.of,
            size_bytes: table.bytes,
            unplaced: table.unplaced,
            published: table.published,
            withdrawn: table.withdrawn,
            ...(table.leaseAgeMs !== undefined && { lease_age_seconds: table.leaseAgeMs / 1_000 }),
          },
        }),
        ...(journal && {
          journal: {
            failing: journal.stats.failing,
            problems: [...journal.problems],
            lines: journal.stats.lines,
            skipped: journal.stats.skipped,
            unread_bytes: journal.stats.unreadBytes,
          },
        }),
      }
    },
  }
}
