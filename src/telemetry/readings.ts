/** Figures that are read from the parts of the service on demand: their names and descriptions. */

import { ValueType } from '@opentelemetry/api'
import { counterData, gaugeData, type Point } from './metric-data.ts'

/** Gauges. The end of a name is its unit. */
const gauges = {
  tollgate_models: 'Models in force.',
  tollgate_models_waiting: 'Models whose cluster Envoy has not loaded yet.',
  tollgate_models_bypassed: 'Models with an HTTPRoute on a Gateway other than GATEWAY_INTERNAL.',
  tollgate_subscriptions: 'Subscriptions in force.',
  tollgate_resource_problems: 'Problems in the resource documents.',
  tollgate_snapshot_compile_seconds: 'How long the resources in force took to compile.',
  tollgate_snapshot_age_seconds: 'How long these resources have been in force.',
  tollgate_counters: 'Windows of counters that this process knows.',
  tollgate_overshoot_bound_tokens:
    'The most tokens by which requests in progress may together exceed a limit, over all limits that reserve.',
  tollgate_redis_away: '1 while Redis does not respond, cannot write or refuses holds.',
  tollgate_counters_unflushed: 'Windows of counters whose sums Redis has not acknowledged.',
  tollgate_key_cache_entries: 'Cached API keys.',
  tollgate_keys_ending_soon:
    'Active keys that expire within a tenth of their lifetime and within 7 days, without ephemeral keys.',
  tollgate_key_store_waiting: 'Keys waiting for a database look-up or being looked up.',
  tollgate_database_away: '1 while the database of API keys is unavailable.',
  tollgate_key_age_seconds: 'Time since the database last confirmed which keys are revoked.',
  tollgate_key_grace_seconds: 'Age (tollgate_key_age_seconds) at which cached keys are refused.',
  tollgate_replicas: 'Processes that may be serving, including this one.',
  tollgate_replicas_silent:
    'Other processes that may be serving and have been silent for 5 seconds.',
  tollgate_revocation_propagation_seconds:
    'How long the last confirmed revocation took to reach all processes.',
  tollgate_revocation_log_failing:
    '1 while the revocation log outside of the database cannot be written.',
  tollgate_journal_unread_bytes: 'Bytes of the usage journal that this process has not read.',
  tollgate_journal_failing:
    '1 while lines of the usage journal are missing, or cannot be written or read.',
  tollgate_table_open: '1 while Envoy decides by the decision table that this process writes.',
  tollgate_table_records: 'Records in the decision table.',
  tollgate_table_room_records: 'Records that the decision table has room for.',
  tollgate_table_size_bytes: 'Size of the files of the decision table.',
  tollgate_table_lease_age_seconds: 'Time since the lease of the decision table was renewed.',
  tollgate_ledger_failing: '1 while the usage ledger cannot be fed from the journal.',
  tollgate_archive_failing: '1 while the usage journal cannot be archived.',
  tollgate_controller_leader: '1 if this process is the leader, which writes statuses.',
  tollgate_controller_waiting: 'Objects whose status is still to be checked.',
  tollgate_controller_held_back:
    "1 while the original's objects are not written because its controller is or may be alive.",
  process_resident_memory_bytes: 'Resident memory.',
  process_start_time_seconds: 'When the process started, since the epoch.',
  nodejs_eventloop_lag_p99_seconds:
    'Delay of the event loop, 99th percentile since the last scrape.',
  nodejs_eventloop_lag_max_seconds: 'Delay of the event loop, maximum since the last scrape.',
  tollgate_build_info: 'Always 1; the version is in the label.',
} as const

/** Counters since the start; `_total` is added to their names in output. */
const counters = {
  tollgate_checks: 'Responses of Check, by decision: allowed, or the code of the refusal.',
  tollgate_redis_losses: 'Times that Redis, or a shard of it, was found to have lost its data.',
  tollgate_key_cache_hits: 'Keys found in the cache.',
  tollgate_key_cache_misses: 'Keys that had to be looked up, or were refused.',
  tollgate_key_cache_unknown_hits: 'Keys known from the cache not to exist.',
  tollgate_key_store_queries: 'Look-ups sent to the key store.',
  tollgate_key_store_refused: 'Keys not looked up because too many were waiting.',
  tollgate_audit_lost: 'Lines of the audit trail that could not be written.',
  tollgate_access_reviews:
    'Access reviews of the cluster for administrator rights, by result: allowed, denied, failed.',
  tollgate_revocations: 'Revocations, by the state in the response.',
  tollgate_revocations_replayed:
    'Keys revoked again because the database listed them as active, as after a restore.',
  tollgate_table_hits: 'Requests that Envoy has admitted by the decision table.',
  tollgate_table_misses: 'Requests for which Envoy has asked Check, by the reason of the miss.',
  tollgate_table_published: 'Records written into the decision table.',
  tollgate_table_withdrawn: 'Records withdrawn from the decision table.',
  tollgate_table_unplaced: 'Records for which the decision table had no room.',
  tollgate_journal_lines: 'Lines of the usage journal that this process has read.',
  tollgate_journal_skipped: 'Lines of the usage journal that could not be read.',
  tollgate_ledger_gaps:
    'Gaps of the usage ledger: parts of the journal that were lost before they were read.',
  tollgate_controller_writes: 'Statuses written.',
  process_cpu_seconds: 'User and system CPU time spent.',
} as const

/** The label of a reading with several figures. */
const labels: Partial<Record<Name, string>> = {
  tollgate_checks: 'decision',
  tollgate_table_misses: 'reason',
  tollgate_access_reviews: 'result',
  tollgate_revocations: 'state',
  tollgate_build_info: 'version',
}

type Name = keyof typeof gauges | keyof typeof counters

/**
 * The function for each reading that exists, in order of reading; all describe the moment of the call. A map has a
 * figure for each value of the label. Undefined, or a number that is not finite, gives no figure; true is shown as 1.
 */
export type Sources = Readonly<
  Partial<Record<Name, () => number | boolean | undefined | ReadonlyMap<string, number>>>
>

type Read = NonNullable<Sources[Name]>

const help: Readonly<Record<Name, string>> = { ...gauges, ...counters }

/** What these sources read now, and the errors of those that cannot be read. */
export function readingsOf(sources: Sources) {
  const errors: unknown[] = []
  const readings = (Object.entries(sources) as [Name, Read][]).map(([name, read]) => {
    const unit = /_(seconds|bytes)$/.exec(name)?.[1]
    const points = pointsOf(name, read, errors)
    return Object.hasOwn(gauges, name)
      ? gaugeData(name, help[name], points, unit)
      : counterData(name, help[name], points, unit, ValueType.DOUBLE)
  })
  return { readings, errors }
}

function pointsOf(name: Name, read: Read, errors: unknown[]): readonly Point[] {
  try {
    const value = read()
    if (typeof value !== 'object') {
      const figure = Number(value)
      return Number.isFinite(figure) ? [{ attributes: {}, value: figure }] : []
    }
    const label = labels[name] ?? ''
    return [...value].map(([of, figure]) => ({ attributes: { [label]: of }, value: figure }))
  } catch (error) {
    errors.push(error)
    return []
  }
}
