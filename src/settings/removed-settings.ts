/**
 * Settings of earlier versions, each with its replacement. A start with one of them fails, because ignoring it would
 * silently change what the service does.
 */
export const removedSettings: Readonly<Record<string, string>> = {
  ADMISSION_CHARGE: 'write spec.admission.charge into the Subscriptions',
  ADMISSION_OVERSHOOT_PERCENT: 'write spec.admission.overshootPercent into the Subscriptions',
  API_RATE_LIMIT_ADDRESS:
    'an address may send twice as many invalid credentials as API_RATE_LIMIT allows',
  BODY_TIMEOUT:
    'a request may take 60 seconds to arrive, and 60 more for each 32 MiB of BODY_LIMIT beyond the first',
  COUNTER_FLUSH_MS: 'counters are flushed every 5 milliseconds',
  HOP_MARK: 'it is derived from GATEWAY_URL, which is unique to each installation',
  KEY_CACHE_ENTRIES: 'each process caches 100,000 keys',
  KEY_CACHE_REVALIDATE: 'revocations are polled four times a second',
  KEY_CACHE_WARM: 'the 10,000 keys used last are read before readiness',
  LEASE_NAMESPACE: 'write LEASE_NAME=<namespace>/<name>',
  LOG_REFUSALS_PER_SECOND: 'at most 20 lines are written per code and second',
  METER_MESSAGES: 'add messages to METER_PATHS',
  METRICS_USER:
    'METRICS_USER_KEY alone names users by a hash; captureUser: false in spec.telemetry.metrics of the Tenant omits them',
  OIDC_CACHE_TTL:
    "an accepted token is cached for 5 minutes, at most until it expires or the provider's keys change",
  OIDC_SIGNING_ALGS:
    "every public-key signature is accepted; the provider's key set says which it uses",
  OTEL_METRIC_EXPORT_TIMEOUT:
    'an export of metrics may take 30 s, or OTEL_METRIC_EXPORT_INTERVAL if that is shorter',
  REPLICA_NAME: 'a process is named by POD_NAME, else by its host and GRPC_ADDRESS',
  TOKEN_REVIEW_OUTAGE_GRACE:
    'cached tokens work 5 minutes longer, or OIDC_OUTAGE_GRACE if that is shorter',
  WORKERS: 'run several processes that share REDIS_URL (docs/run.md, "Scale to several cores")',
}
