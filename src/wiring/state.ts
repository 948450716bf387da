/** The state of a process and of what it depends on: for probes, and for administrators. */

import type { ServiceState, ServiceStateDeps } from '../admin/operation/service-state.ts'
import type { GatewayDrain } from '../core/status/gateway-drain.ts'
import type { Journal } from '../ratelimit/journal/journal.ts'
import { ping } from '../store/postgres/postgres.ts'
import { listReplicas } from '../store/revocations/replicas.ts'
import type { Context } from './context.ts'
import { outageGraceMs } from './keys.ts'
import type { Parts } from './parts.ts'
import { readVersion } from './telemetry.ts'

/** What the APIs report besides the parts. */
export interface Condition {
  /** Whether everything is started and nothing is shutting down. */
  readonly ready: () => boolean
  readonly gatewayDrain: GatewayDrain
  readonly journal: Journal | undefined
}

/** Whether requests may be sent here. */
export function isReady({ ready, gatewayDrain }: Condition): boolean {
  return ready() && !gatewayDrain.isAsked
}

/** Names of the unavailable parts. */
export async function degradedParts(
  { database, keyParts, resources, tokens, counterParts }: Parts,
  { journal }: Condition,
): Promise<string[]> {
  return [
    // A database whose triggers are off answers, and is not used.
    ...((await ping(database.pool)) && keyParts.follower.state() !== 'unavailable'
      ? []
      : ['database']),
    ...(counterParts.redis?.unavailable ? ['redis'] : []),
    ...(keyParts.follower.stats().silent.length > 0 ? ['replicas'] : []),
    ...(keyParts.keeper.stats().failing ? ['revocation-log'] : []),
    // Both may contain the cluster.
    ...new Set([...tokens.degraded(), ...resources.degraded()]),
    ...(journal?.stats.failing ? ['journal'] : []),
  ]
}

export function createServiceState(
  { config }: Pick<Context, 'config'>,
  parts: Parts,
  condition: Condition,
): ServiceStateDeps['serviceState'] {
  const { database, keyParts, resources, discovery, counterParts } = parts
  const { follower, propagation, keeper } = keyParts
  const { redis } = counterParts
  const version = readVersion()

  async function replicas(): Promise<Pick<ServiceState, 'replicas'>> {
    const found = await listReplicas(database.pool).catch(() => undefined)
    if (found === undefined) return {}
    return {
      replicas: found.map(({ id, name, place, unseenMs, servesMs, unread }) => ({
        ...{ name, place, answers: id === follower.id },
        ...{ unseen_seconds: unseenMs / 1_000, serves_seconds: servesMs / 1_000 },
        ...(unread !== null && { unread_revocations: unread }),
      })),
    }
  }

  return async () => {
    const [degraded, listed] = await Promise.all([degradedParts(parts, condition), replicas()])
    const { models, policies, subscriptions } = discovery.snapshot()
    const { confirmed, pending, lastMs } = propagation.stats()
    const { ageMs } = follower.stats()
    const { journal } = condition
    return {
      ...{ replica: config.replicaName, version },
      ready: isReady(condition),
      degraded,
      resources: {
        ...{ models: models.size, policies: policies.size, subscriptions: subscriptions.size },
        problems: resources.problems().length + discovery.problems().length,
        waiting_models: resources.modelsWaiting(),
        age_seconds: resources.published().ageS,
      },
      ...listed,
      revocations: {
        ...{ confirmed, pending, log_failing: keeper.stats().failing },
        ...(lastMs !== undefined && { last_confirmation_seconds: lastMs / 1_000 }),
      },
      database: {
        available: !degraded.includes('database'),
        ...(Number.isFinite(ageMs) && { key_age_seconds: ageMs / 1_000 }),
        grace_seconds: outageGraceMs(config) / 1_000,
      },
      ...(redis && {
        redis: {
          ...{ available: !redis.unavailable, unflushed: redis.unflushed, losses: redis.losses },
        },
      }),
      ...(journal && {
        journal: {
          ...{ failing: journal.stats.failing, lines: journal.stats.lines },
          ...{ skipped: journal.stats.skipped, unread_bytes: journal.stats.unreadBytes },
        },
      }),
    }
  }
}
