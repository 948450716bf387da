/**
 * Settings of earlier versions, each with what to do instead. A start with one of them fails, because
 * ignoring it would change what the service does without a word.
 */
export const removedSettings: Readonly<Record<string, string>> = {
  KEY_CACHE_REVALIDATE: 'revocations are looked for four times a second',
  KEY_CACHE_WARM: 'the 10,000 keys used last are read before readiness',
  METER_MESSAGES: 'add messages to METER_PATHS',
  OIDC_CACHE_TTL:
    "an accepted token is cached for 5 minutes, at most until it expires or the provider's keys change",
  OIDC_SIGNING_ALGS:
    "every public-key signature is accepted; the provider's key set says which it uses",
  OTEL_METRIC_EXPORT_TIMEOUT:
    'an export of metrics may take 30 s, or OTEL_METRIC_EXPORT_INTERVAL if that is shorter',
  WORKERS: 'run several processes that share REDIS_URL (docs/run.md, "Several cores")',
}
