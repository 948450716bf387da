/** The metrics: their names, whose end is the unit, and what they say. */

import { ValueType } from '@opentelemetry/api'
import type { MetricData } from '@opentelemetry/sdk-metrics'

/** Figures that may fall. */
export const gauges = {
  tollgate_models: 'Models in force.',
  tollgate_models_waiting: 'Models whose cluster Envoy has not loaded yet.',
  tollgate_models_bypassed: 'Models with an HTTPRoute on a Gateway other than GATEWAY_INTERNAL.',
  tollgate_subscriptions: 'Subscriptions in force.',
  tollgate_resource_problems: 'Problems in the resource documents.',
  tollgate_resources_failing: '1 while changes of resources cannot be read or put in force.',
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
  tollgate_limit_used_ratio:
    'Used share of a limit that several callers share; 1 means that it is used up.',
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
  tollgate_model_checks:
    'Responses of Check by model; the label is empty if the request names no model that exists.',
  tollgate_model_responses:
    'Allowed requests that have ended, by the status of the response; 0 without a response.',
  tollgate_model_failures: "Requests that failed at a model's server, by reason.",
  tollgate_model_tokens:
    'Tokens of counted responses by type; cached and cache_write are input, reasoning is output; counted is weighted.',
  tollgate_usage_unusable: 'Responses that reported no usable usage.',
  tollgate_tokens_estimated:
    'Tokens counted for responses that reported none, estimated from their length.',
  tollgate_uncounted_calls: 'Requests allowed on paths whose tokens are not counted.',
  tollgate_api_requests: 'Requests to the REST API; the route is empty for unknown paths.',
  tollgate_api_keys_created: 'API keys created.',
  authorized_hits: 'Tokens counted, as models report them or estimated.',
  authorized_calls: 'Requests that were allowed, except lists of models.',
  limited_calls: 'Requests refused because a limit is used up.',
  tollgate_identity: 'Identity tokens presented, by the source that verified them and the result.',
} as const

/** Histograms. */
const histograms = {
  tollgate_model_first_byte_seconds:
    "Time from the first byte of an allowed request to the first byte of the server's response.",
  tollgate_model_duration_seconds:
    'Time from the first byte of an allowed request to the last byte of the response.',
  tollgate_api_request_duration_seconds: 'How long the REST API took to respond.',
  authorized_request_duration_seconds:
    'Time from the first byte of an allowed request to the last byte of the response.',
  tollgate_redis_flush_seconds: 'How long Redis took to answer a batch of counters.',
  tollgate_redis_flush_counters: 'Counters in a batch sent to Redis.',
  tollgate_check_duration_seconds:
    'How long Check took, from the bytes of the request to those of the response.',
  tollgate_key_store_query_seconds: 'How long the key store took to answer a look-up.',
} as const

export type GaugeName = keyof typeof gauges
export type CounterName = keyof typeof counters
export type HistogramName = keyof typeof histograms

const help: Readonly<Record<string, string>> = { ...gauges, ...counters, ...histograms }

/** The metric in OpenTelemetry's format. */
export function descriptorOf(
  name: GaugeName | CounterName | HistogramName,
  valueType = ValueType.DOUBLE,
): MetricData['descriptor'] {
  const unit = /_(seconds|bytes)$/.exec(name)?.[1] ?? ''
  return { name, description: help[name] as string, unit, valueType }
}
