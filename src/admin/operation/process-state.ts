/** The state of a process and of its dependencies: for probes, and for administrators. */

import type { AuditTrail } from '../../audit/trail.ts'
import type { Replica } from '../../cluster/replicas.ts'
import type { PropagationWatch } from '../../keys/revocations/propagation.ts'
import type { RevocationFollower } from '../../keys/revocations/revocation-follower.ts'
import type { RevocationKeeper } from '../../keys/revocations/revocation-keeper.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { HoldStore } from '../../ratelimit/holds.ts'
import type { OpenSums } from '../../ratelimit/sums/open-sums.ts'
import type { ServiceState } from './read-state.ts'

interface ProcessParts {
  readonly replica: string
  readonly version: string
  /** How long keys are trusted without the database, in milliseconds. */
  readonly graceMs: number
  /** Whether requests may be sent here. */
  readonly isReady: () => boolean
  /** Whether the database responds. */
  readonly ping: () => Promise<boolean>
  /** The processes that a revocation waits for. */
  readonly listReplicas: () => Promise<readonly Replica[]>
  readonly follower: RevocationFollower
  readonly propagation: PropagationWatch
  readonly keeper: RevocationKeeper
  /** Undefined if the counters are in memory, of this gateway alone. */
  readonly redis: Pick<OpenSums, 'isUnavailable' | 'unflushed' | 'losses'> | undefined
  readonly holds: Pick<HoldStore, 'isRefused'>
  /** Undefined if there is no journal. `problems`: by name. */
  readonly journal: Pick<OpenSums, 'stats' | 'problems'> | undefined
  /** Returns undefined if this process has none. */
  readonly table: () => DecisionTableState | undefined
  readonly snapshot: () => Snapshot
  readonly resources: {
    readonly problems: () => readonly string[]
    readonly modelsWaiting: () => number
    readonly published: () => { readonly ageS: number }
  }
  /** Returns undefined until a model has responded. */
  readonly firstBytes: () =>
    | { readonly responses: number; readonly medianMs: number; readonly p95Ms: number }
    | undefined
  /** Calls since the start that may have returned text without being counted. */
  readonly uncountedCalls: () => number
  readonly audit: Pick<AuditTrail, 'isFailing'>
  /** The other parts that are unavailable, by name; a name may occur twice. */
  readonly unavailable: () => readonly string[]
}

/** State of the decision table, by which Envoy repeats earlier grants. */
interface DecisionTableState {
  readonly isOpen: boolean
  readonly records: { readonly used: number; readonly of: number }
  readonly bytes: number
  readonly leaseAgeMs: number | undefined
  readonly published: number
  readonly withdrawn: number
  readonly unplaced: number
}

export function createProcessState(parts: ProcessParts) {
  const { isReady, follower, propagation, keeper, redis, journal, resources } = parts

  const isRedisAway = (): boolean => (redis?.isUnavailable || parts.holds.isRefused) === true

  /** Names of the unavailable parts. */
  async function degraded(): Promise<string[]> {
    // Wrong owners and modes matter only once lines are missing.
    const problems = journal?.problems.filter((problem) => problem !== 'mismatch') ?? []
    return [
      // A database whose triggers are off responds, but is not used.
      ...((await parts.ping()) && follower.state() !== 'unavailable' ? [] : ['database']),
      ...(isRedisAway() ? ['redis'] : []),
      ...(follower.stats().silent.length > 0 ? ['replicas'] : []),
      ...(follower.stats().otherZones.length > 0 ? ['time-zones'] : []),
      ...(keeper.stats().failing ? ['revocation-log'] : []),
      ...(parts.audit.isFailing ? ['audit'] : []),
      ...new Set(parts.unavailable()),
      ...(problems.length > 0 ? ['journal'] : []),
    ]
  }

  async function replicas(): Promise<Pick<ServiceState, 'replicas'>> {
    const found = await parts.listReplicas().catch(() => undefined)
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
      const { models, policies, subscriptions } = parts.snapshot()
      const { confirmed, pending, lastMs } = propagation.stats()
      const { ageMs } = follower.stats()
      const firstBytes = parts.firstBytes()
      const table = parts.table()
      return {
        replica: parts.replica,
        version: parts.version,
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
          grace_seconds: parts.graceMs / 1_000,
        },
        ...(redis && {
          redis: {
            available: !isRedisAway(),
            unflushed: redis.unflushed,
            losses: redis.losses,
          },
        }),
        uncounted_calls: parts.uncountedCalls(),
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
