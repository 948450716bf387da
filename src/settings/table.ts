/**
 * Every setting: its name, its default, what it accepts, what it means. From this come the Config,
 * docs/settings.md (`npm run settings`) and `tollgate serve --help`. A setting that is added here
 * is a field of the Config at once.
 */

import * as form from './readers.ts'

export interface Setting<T> {
  readonly name: string
  /** As it would be written. undefined: `otherwise` says in words what holds then. */
  readonly fallback: string | undefined
  readonly otherwise: string
  readonly reader: form.Reader<T>
  /** A line of Markdown. */
  readonly meaning: string
}

function setting<T>(
  name: string,
  fallback: string,
  reader: form.Reader<T>,
  meaning: string,
): Setting<T> {
  return { name, fallback, otherwise: '', reader, meaning }
}

/** One that is undefined unless it is set. */
function optional<T>(
  name: string,
  otherwise: string,
  reader: form.Reader<T>,
  meaning: string,
): Setting<T | undefined> {
  return { name, fallback: undefined, otherwise, reader, meaning }
}

// biome-ignore format: a row a setting
export const settings = {
  gatewayAddress: setting('GATEWAY_ADDRESS', '127.0.0.1:8000', form.socketAddress,
    'Envoy: inference and the external API'),
  apiAddress: setting('API_ADDRESS', '127.0.0.1:8080', form.socketAddress,
    'the external API itself'),
  internalAddress: setting('INTERNAL_ADDRESS', '127.0.0.1:8081', form.socketAddress,
    '`/internal/v1/…`, `/livez`, `/readyz`; no route of Envoy leads here'),
  grpcAddresses: setting('GRPC_ADDRESS', '127.0.0.1:8082', form.addresses,
    'Check, access log, rate limit service, health'),
  /** undefined: no metrics are shown. */
  metricsAddress: setting('METRICS_ADDRESS', '127.0.0.1:9464', form.orOff(form.socketAddress),
    'Prometheus, `GET /metrics`'),
  /** How users are named in labels: as they are, by a hash, or not at all. */
  metricsUser: setting('METRICS_USER', 'on', form.oneOf('on', 'hash', 'off'),
    'whether metrics tell users apart, by their names or by a hash; `spec.telemetry` of the Tenant wins'),
  metricsUserKey: optional('METRICS_USER_KEY', 'none', form.secretText,
    'the key of that hash (HMAC-SHA-256), the same for all replicas; needed with `METRICS_USER=hash`'),
  envoyAdminAddress: setting('ENVOY_ADMIN_ADDRESS', '127.0.0.1:9901', form.address,
    'Envoy\'s admin page, on loopback or a socket: it can stop Envoy. It is asked to reopen the journal and which models it can serve'),
  modelServerAddress: setting('MODEL_SERVER_ADDRESS', '127.0.0.1:8090', form.socketAddress,
    'the sample model server (`npm start` only)'),
  /** Both, or neither. */
  gatewayTlsCertFile: optional('GATEWAY_TLS_CERT_FILE', 'none: plain HTTP', form.path,
    'PEM file of the certificate, with its chain, that Envoy shows to clients; read again when it is replaced (`tollgate envoy-config`)'),
  gatewayTlsKeyFile: optional('GATEWAY_TLS_KEY_FILE', 'none', form.path,
    'PEM file of its key'),
  gatewayTrustedHops: setting('GATEWAY_TRUSTED_HOPS', '0', form.integer(0, 16),
    'proxies in front of Envoy that add the client to `x-forwarded-for`; name them in `TRUSTED_PROXIES` too'),
  gatewayGrpcEndpoints: optional('GATEWAY_GRPC_ENDPOINTS', '`GRPC_ADDRESS`', form.addresses,
    'where Envoy finds the processes of the service: `GRPC_ADDRESS` of each (`tollgate envoy-config`)'),
  gatewayApiEndpoints: optional('GATEWAY_API_ENDPOINTS', '`API_ADDRESS`', form.addresses,
    'the same for the external API: `API_ADDRESS` of each'),
  gatewayUrl: optional('GATEWAY_URL', '`http://`, or `https://` with a certificate, + `GATEWAY_ADDRESS`', form.url('http:', 'https:'),
    'the public base URL'),
  /** undefined: embedded Postgres under `dataDir`. */
  databaseUrl: optional('DATABASE_URL', 'embedded Postgres in `DATA_DIR`', form.url('postgres:', 'postgresql:'),
    'the database of the keys: Postgres 15 or newer; `sslmode` as in libpq, without the fallback of `prefer`'),
  databaseConnections: setting('DB_MAX_OPEN_CONNS', '25', form.integer(1, 1_000),
    'connections to it at most, besides two for revocations; a fifth of them for searches at most'),
  /** undefined: counters in memory. */
  redisUrl: optional('REDIS_URL', 'counters in memory', form.redisUrl,
    'counters shared by several processes: Redis 6.2 or newer, or Valkey'),
  /** What to think of a counter never seen while Redis is away. */
  onCounterLoss: setting('ON_COUNTER_LOSS', 'allow', form.oneOf('allow', 'deny'),
    'while Redis is away, a counter never seen allows, or denies with 503'),
  counterFlushMs: setting('COUNTER_FLUSH_MS', '5', form.integer(1, 1_000),
    'milliseconds between two flushes of what was counted'),
  meterPaths: setting('METER_PATHS', 'chat', form.meters,
    'the operations whose tokens are counted'),
  meterMessages: setting('METER_MESSAGES', 'false', form.flag,
    'the same as `messages` in `METER_PATHS`'),
  unmeteredPaths: setting('UNMETERED_PATHS', 'open', form.oneOf('open', 'closed'),
    'whether operations that cost tokens and are not counted are served, or refused with 403'),
  /** What an answer without usable usage counts: nothing, or a figure made from its length. */
  unusableUsage: setting('UNUSABLE_USAGE', 'allow', form.oneOf('allow', 'estimate'),
    'an answer that reports no usable usage counts nothing, or a token for every four bytes of it'),
  allowedOrigins: optional('CORS_ALLOWED_ORIGINS', 'none', form.origins,
    'origins whose pages may call the gateway, or `*` (Envoy\'s)'),
  bodyLimit: setting('BODY_LIMIT', '33554432', form.integer(65_536, 2 ** 30),
    'the largest body of a model request that Envoy reads, in bytes (Envoy\'s)'),
  bodyTimeoutMs: setting('BODY_TIMEOUT', '60s', form.duration('1s', '1h'),
    'how long a request may take to arrive, its body included (Envoy\'s)'),
  envoyHeapBytes: setting('ENVOY_HEAP_BYTES', '2147483648', form.integer(2 ** 27, 2 ** 40),
    'what Envoy may hold for all connections, in bytes; near it the largest requests are reset (Envoy\'s)'),
  /** The file that Envoy also writes what responses used to; absolute. undefined: there is none. */
  usageJournal: optional('USAGE_JOURNAL', 'none (`npm start`: `DATA_DIR`/journal/usage.jsonl)', form.orOff(form.path),
    'the file in which Envoy notes what answers used'),
  usageJournalBytes: setting('USAGE_JOURNAL_BYTES', '16777216', form.integer(4_096, 2 ** 30),
    'the journal is rotated at this size, in bytes'),
  /** Absolute. */
  dataDir: setting('DATA_DIR', '.data', form.path,
    'where embedded Postgres, journal and logs live'),
  /** Absolute. */
  revocationLogDir: optional('REVOCATION_LOG_DIR', '`DATA_DIR`', form.path,
    'where each process keeps a file of what was revoked, for the day that a backup is restored'),
  /** Absolute. */
  envoyConfigDir: optional('ENVOY_CONFIG_DIR', '`DATA_DIR`/envoy', form.path,
    'where Envoy\'s clusters file is written'),
  envoyPath: optional('ENVOY_PATH', '`envoy` on PATH, else a pinned wheel', form.anyText,
    'the Envoy to run (`npm start` only)'),
  /** Absolute. */
  resourceFolder: setting('RESOURCES', 'file:examples/resources', form.folderUrl,
    'the folder of resources'),
  /** Absolute. */
  secretsDir: optional('SECRETS_DIR', 'none', form.path,
    'credentials and authorities of model servers, as `<namespace>/<file>`'),
  backendCaFile: optional('BACKEND_CA_FILE', 'the system\'s', form.path,
    'PEM file of the authorities that vouch for https model servers (Envoy\'s)'),
  tokenAuthFile: optional('TOKEN_AUTH_FILE', 'none (`npm start`: `examples/tokens.csv`)', form.anyText,
    'identity tokens, a line each: `token,user,uid,"group1,group2"`'),
  oidcIssuerUrl: optional('OIDC_ISSUER_URL', 'none', form.issuerUrl,
    'the OIDC provider whose identity tokens are believed'),
  oidcClientIds: optional('OIDC_CLIENT_ID', 'none', form.names,
    'the audiences (`aud`) of which a token of it has to name one'),
  /** Absolute. */
  oidcProvidersFile: optional('OIDC_PROVIDERS_FILE', 'none', form.path,
    'OIDC providers in kube-apiserver\'s form (`AuthenticationConfiguration`); reloaded on change'),
  oidcUsernameClaim: optional('OIDC_USERNAME_CLAIM', '`preferred_username`, else `sub`', form.anyText,
    'the claim that holds the user, by its name or a path with dots'),
  oidcGroupsClaim: setting('OIDC_GROUPS_CLAIM', 'groups', form.anyText,
    'the claim that holds the groups, by its name or a path with dots'),
  oidcUsernamePrefix: optional('OIDC_USERNAME_PREFIX', 'none', form.anyText,
    'put before each user of a provider'),
  oidcGroupsPrefix: optional('OIDC_GROUPS_PREFIX', 'none', form.anyText,
    'put before each group of a provider'),
  oidcAlgorithms: setting('OIDC_SIGNING_ALGS', 'RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA', form.signingAlgorithms,
    'signatures that are accepted'),
  oidcCaFile: optional('OIDC_CA_FILE', 'the usual authorities', form.path,
    'certificates (PEM) of the authorities that are trusted for providers, instead of the usual ones'),
  oidcOutageGraceMs: setting('OIDC_OUTAGE_GRACE', '1h', form.duration('0', '24h'),
    'how long a provider\'s last keys are believed once it is out of reach'),
  oidcCacheTtlMs: setting('OIDC_CACHE_TTL', '5m', form.duration('30s', '1h'),
    'how long a token that was believed is believed again unread'),
  tokensOpenInference: setting('INFERENCE_WITH_IDENTITY_TOKENS', 'false', form.flag,
    'whether identity tokens open inference; a key is needed unless they do'),
  /** Whether the cluster says who is asking, and who administers. */
  kubernetesTokenReview: setting('KUBERNETES_TOKEN_REVIEW', 'false', form.flag,
    'whether the cluster\'s identity tokens are believed, and its roles make administrators'),
  kubeconfig: optional('KUBECONFIG', 'the pod\'s service account', form.path,
    'how the cluster\'s API server is reached'),
  kubernetesHost: optional('KUBERNETES_SERVICE_HOST', 'none', form.anyText,
    'the API server\'s address, which the cluster sets in each pod'),
  kubernetesPort: setting('KUBERNETES_SERVICE_PORT', '443', form.integer(1, 65_535),
    'its port'),
  tokenReviewAudiences: setting('TOKEN_REVIEW_AUDIENCES', 'https://kubernetes.default.svc,maas-default-gateway-sa', form.names,
    'the audiences of which a cluster token has to name one; those of our own service account\'s token are added'),
  tokenReviewGraceMs: setting('TOKEN_REVIEW_OUTAGE_GRACE', '5m', form.duration('0', '24h'),
    'how long remembered cluster tokens work without the API server'),
  adminAccessReview: setting('ADMIN_ACCESS_REVIEW', 'accesspolicies.tollgate.dev', form.resourceName,
    'administrators are who may `create` this in `models-as-a-service`, where the cluster says so'),
  trustedProxies: setting('TRUSTED_PROXIES', 'loopback', form.orOff(form.networks),
    'whose `x-forwarded-for` tells the external API where a caller is; `loopback` holds for Unix sockets too'),
  /** undefined: no limit. */
  apiRateLimit: setting('API_RATE_LIMIT', '600/1m', form.orOff(form.rate),
    'requests of one caller to the external API; each process counts for itself'),
  apiAddressRateLimit: setting('API_RATE_LIMIT_ADDRESS', '1200/1m', form.orOff(form.rate),
    'refused credentials that one address, or IPv6 /64, may show the external API'),
  adminGroups: optional('ADMIN_GROUPS', '`tollgate-admins`; none with `KUBERNETES_TOKEN_REVIEW`', form.names,
    'groups of administrators'),
  maxExpirationDays: setting('API_KEY_MAX_EXPIRATION_DAYS', '90', form.integer(1, 36_500),
    'longest life of a key; the Tenant resource wins'),
  keyMarker: setting('API_KEY_MARKER', 'tg', form.marker,
    'new keys are `sk-tg-…`'),
  acceptedMarkers: setting('API_KEY_MARKERS_ACCEPTED', 'tg,oai', form.markers,
    'other markers accepted'),
  /** So may all the models asked for it. More would run into the listener's own time-out for answers. */
  accessCheckTimeoutSeconds: setting('ACCESS_CHECK_TIMEOUT_SECONDS', '15', form.integer(1, 25),
    'deadline of a whole model list'),
  /** Part of the names of service-account groups (contract, 3.9). */
  instanceName: optional('INSTANCE_NAME', '`GATEWAY_NAME`, else `maas-default-gateway`', form.anyText,
    'the name of this installation, in the groups of the tiers\' service accounts'),
  gatewayName: optional('GATEWAY_NAME', 'none', form.anyText,
    'the same, as the original service calls it'),
  keyCacheEntries: setting('KEY_CACHE_ENTRIES', '100000', form.integer(1, 10_000_000),
    'keys remembered by each process, about 320 bytes each'),
  keyCacheWarm: setting('KEY_CACHE_WARM', '10000', form.integer(0, 100_000),
    'most recently used keys loaded before readiness'),
  keyCacheRevalidateMs: setting('KEY_CACHE_REVALIDATE', '250ms', form.duration('100ms', '10s'),
    'how often the revocation log is polled'),
  /** 0: a minute. */
  keyCacheOutageGraceMs: setting('KEY_CACHE_OUTAGE_GRACE', '15m', form.duration('0', '24h'),
    'how long remembered keys work without the database; never less than a minute'),
  /** What this process is called where a revocation waits for it. */
  replicaName: optional('REPLICA_NAME', 'host and `GRPC_ADDRESS`', form.anyText,
    'this process\'s name in `waitingFor`'),
  refusalLinesPerSecond: setting('LOG_REFUSALS_PER_SECOND', '20', form.integer(0, 100_000),
    'refused requests logged in a second at most, of each code; then a line says how many were left out'),
  /** `stdout`, or absolute. undefined: no trail is kept. */
  auditLog: setting('AUDIT_LOG', 'stdout', form.orOff(form.auditPlace),
    'where the audit trail goes: a JSON line each, told from the log by `"kind":"audit"` (`npm start`: `DATA_DIR`/audit/audit.jsonl)'),
  auditRequired: setting('AUDIT_REQUIRED', 'false', form.flag,
    'whether what is done to keys is refused with 503 while its line cannot be written'),
  logLevel: setting('LOG_LEVEL', 'info', form.oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'the least level that is logged'),
} as const

export type Settings = typeof settings
