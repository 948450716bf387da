/**
 * Environment → one frozen Config. Defaults stand beside the names; every bad variable is named
 * at once. Nothing else reads the environment. Secrets may come by file: NAME_FILE for NAME.
 */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { parseDuration } from './core/duration.ts'
import { type MeterName, meterable, type PathRules, pathRules } from './core/operations.ts'
import type { UnusableUsage } from './core/usage.ts'
import { parseRedisUrl } from './store/counters/redis/url.ts'

export interface SocketAddress {
  readonly host: string
  readonly port: number
}

/** Where to listen or connect: a TCP address or a Unix socket's path. */
export type Address = SocketAddress | { readonly path: string }

export interface Config {
  readonly gatewayAddress: SocketAddress
  readonly apiAddress: SocketAddress
  readonly internalAddress: SocketAddress
  readonly grpcAddresses: readonly Address[]
  /** undefined: no metrics are shown. */
  readonly metricsAddress: SocketAddress | undefined
  readonly envoyAdminAddress: SocketAddress
  /** Public base URL, without a trailing slash. */
  readonly gatewayUrl: string
  /** undefined: embedded Postgres under `dataDir`. */
  readonly databaseUrl: string | undefined
  readonly databaseConnections: number
  /** undefined: counters in memory. */
  readonly redisUrl: string | undefined
  /** What to think of a counter never seen while Redis is away. */
  readonly onCounterLoss: 'allow' | 'deny'
  /** Milliseconds between two flushes of what was counted. */
  readonly counterFlushMs: number
  /** The file that Envoy also writes what responses used to; absolute. undefined: there is none. */
  readonly usageJournal: string | undefined
  /** Bytes from which on that file is renamed and a new one begun. */
  readonly usageJournalBytes: number
  /** Absolute. */
  readonly dataDir: string
  /** Folder of Envoy's files; absolute. */
  readonly envoyConfigDir: string
  /** Folder of the resources; absolute. */
  readonly resourceFolder: string
  readonly tokenAuthFile: string | undefined
  readonly adminGroups: ReadonlySet<string>
  readonly maxExpirationDays: number
  /** Seconds that a list of models may take, and so may all the models asked for it. */
  readonly accessCheckTimeoutSeconds: number
  /** Name of this installation; part of the names of service-account groups (contract, 3.9). */
  readonly instanceName: string
  /** Which operations are counted, and whether the others are open. */
  readonly paths: PathRules
  /** What an answer without usable usage counts: nothing, or a figure made from its length. */
  readonly unusableUsage: UnusableUsage
  /** The largest body of a model request that Envoy holds (bytes). */
  readonly bodyLimit: number
  /** Milliseconds in which a whole request has to arrive. */
  readonly bodyTimeoutMs: number
  /** What Envoy may hold for all connections together (bytes). */
  readonly envoyHeapBytes: number
  readonly keyMarker: string
  readonly acceptedMarkers: ReadonlySet<string>
  /** API keys remembered, at most. */
  readonly keyCacheEntries: number
  /** API keys, those used last, that are remembered from the start. */
  readonly keyCacheWarm: number
  /** Milliseconds that remembered keys are believed while the database is away; 0: a minute. */
  readonly keyCacheOutageGraceMs: number
  /** Milliseconds between two questions to the log of revocations. */
  readonly keyCacheRevalidateMs: number
  /** What this process is called where a revocation waits for it. */
  readonly replicaName: string
  /** Where it runs: this machine since it was started, and the address only one process can have. */
  readonly replicaPlace: string
  readonly logLevel: string
}

/** Thrown with one line for each bad variable. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`Bad settings:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

type Environment = Readonly<Record<string, string | undefined>>

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']
const marker = /^[a-z0-9]{1,16}$/

/**
 * Reads the settings; throws a ConfigError that names every bad one. `check` finds what is bad
 * though well written, as lines that begin with the setting's name.
 */
export function loadConfig(
  env: Environment,
  check: (config: Config) => readonly string[] = () => [],
): Config {
  const problems: string[] = []
  const bad = (name: string, message: string): void => void problems.push(`${name}: ${message}`)

  function text(name: string): string | undefined {
    const file = env[`${name}_FILE`]
    if (file === undefined || file === '') return env[name]?.trim() || undefined
    if (env[name]) bad(name, `set either ${name} or ${name}_FILE, not both`)
    try {
      return readFileSync(file, 'utf8').trim() || undefined
    } catch {
      bad(`${name}_FILE`, `can not read ${file}`)
      return undefined
    }
  }

  function integer(name: string, fallback: number, min: number, max: number): number {
    const written = text(name)
    if (written === undefined) return fallback
    const value = Number(written)
    if (/^\d+$/.test(written) && value >= min && value <= max) return value
    bad(name, `must be a whole number from ${min} to ${max}, is "${written}"`)
    return fallback
  }

  function flag(name: string, fallback: boolean): boolean {
    const written = text(name)
    if (written === undefined) return fallback
    if (written !== 'true' && written !== 'false') bad(name, 'must be true or false')
    return written === 'true'
  }

  /** The first of `values` unless another one is set. */
  function oneOf<const Values extends readonly [string, ...string[]]>(
    name: string,
    values: Values,
  ): Values[number] {
    const written = text(name) ?? values[0]
    const value = values.find((each) => each === written)
    if (value === undefined) bad(name, `must be ${values.join(' or ')}, is "${written}"`)
    return value ?? values[0]
  }

  function meterNames(): ReadonlySet<MeterName> {
    const known = Object.keys(meterable) as MeterName[]
    const names = new Set<MeterName>(flag('METER_MESSAGES', false) ? ['messages'] : [])
    for (const written of list('METER_PATHS', 'chat')) {
      const name = known.find((each) => each === written)
      if (name === undefined) bad('METER_PATHS', `must be of ${known.join(', ')}, has "${written}"`)
      else names.add(name)
    }
    return names
  }

  function duration(name: string, fallback: string, longest: string, shortest = '0'): number {
    const written = text(name) ?? fallback
    const milliseconds = readDuration(written)
    const [min = 0, max = 0] = [shortest, longest].map(readDuration)
    if (milliseconds !== undefined && milliseconds >= min && milliseconds <= max) {
      return milliseconds
    }
    const range = min === 0 ? `at most ${longest}` : `from ${shortest} to ${longest}`
    bad(name, `must be a duration like 30s, 15m or 1h and ${range}, is "${written}"`)
    return 0
  }

  function socketAddress(name: string, fallback: string): SocketAddress {
    const address = parseSocketAddress(text(name) ?? fallback)
    if (address === undefined) bad(name, 'must be host:port, like 127.0.0.1:8080')
    return address ?? { host: '127.0.0.1', port: 0 }
  }

  function url(name: string, schemes: readonly string[]): string | undefined {
    const written = text(name)
    if (written === undefined) return undefined
    const parsed = URL.parse(written)
    if (parsed !== null && schemes.includes(parsed.protocol)) return written
    bad(
      name,
      `must be a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`,
    )
    return undefined
  }

  function list(name: string, fallback: string): readonly string[] {
    return (text(name) ?? fallback)
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '')
  }

  function markerOf(name: string, written: string): string {
    if (!marker.test(written)) bad(name, 'must be 1 to 16 lower-case letters and digits')
    return written
  }

  const dataDir = resolve(text('DATA_DIR') ?? '.data')
  const gatewayAddress = socketAddress('GATEWAY_ADDRESS', '127.0.0.1:8000')
  const keyMarker = markerOf('API_KEY_MARKER', text('API_KEY_MARKER') ?? 'tg')
  const logLevel = text('LOG_LEVEL') ?? 'info'
  if (!logLevels.includes(logLevel)) bad('LOG_LEVEL', `must be one of ${logLevels.join(', ')}`)
  const resources = text('RESOURCES') ?? 'file:examples/resources'
  if (!/^file:./.test(resources)) bad('RESOURCES', 'must be file:<folder>')
  const grpcAddresses = list('GRPC_ADDRESS', '127.0.0.1:8082').map((written) => {
    const address = parseAddress(written)
    if (address === undefined)
      bad('GRPC_ADDRESS', `"${written}" is neither host:port nor unix:/path`)
    return address ?? { path: '' }
  })
  // Better no start than a promise that is not kept: these would be ignored in silence.
  for (const name of ['OIDC_ISSUER_URL', 'KUBERNETES_TOKEN_REVIEW']) {
    if (text(name) !== undefined) bad(name, 'is not supported yet; unset it')
  }

  const redisUrl = text('REDIS_URL')
  if (redisUrl !== undefined && parseRedisUrl(redisUrl) === undefined) {
    bad(
      'REDIS_URL',
      'must be redis://[user:password@]host:port[/db], redis+sentinel://host:port,host:port/name ' +
        'or redis+cluster://host:port,host:port, each also with rediss',
    )
  }
  const usageJournal = text('USAGE_JOURNAL')
  const config: Config = {
    gatewayAddress,
    apiAddress: socketAddress('API_ADDRESS', '127.0.0.1:8080'),
    internalAddress: socketAddress('INTERNAL_ADDRESS', '127.0.0.1:8081'),
    grpcAddresses,
    metricsAddress:
      text('METRICS_ADDRESS') === 'off'
        ? undefined
        : socketAddress('METRICS_ADDRESS', '127.0.0.1:9464'),
    envoyAdminAddress: socketAddress('ENVOY_ADMIN_ADDRESS', '127.0.0.1:9901'),
    gatewayUrl: (
      url('GATEWAY_URL', ['http:', 'https:']) ?? `http://${showAddress(gatewayAddress)}`
    ).replace(/\/+$/, ''),
    databaseUrl: url('DATABASE_URL', ['postgres:', 'postgresql:']),
    databaseConnections: integer('DB_MAX_OPEN_CONNS', 25, 1, 1_000),
    redisUrl,
    onCounterLoss: oneOf('ON_COUNTER_LOSS', ['allow', 'deny']),
    counterFlushMs: integer('COUNTER_FLUSH_MS', 5, 1, 1_000),
    usageJournal:
      usageJournal === undefined || usageJournal === 'off' ? undefined : resolve(usageJournal),
    usageJournalBytes: integer('USAGE_JOURNAL_BYTES', 16 * 2 ** 20, 4_096, 2 ** 30),
    dataDir,
    envoyConfigDir: resolve(text('ENVOY_CONFIG_DIR') ?? `${dataDir}/envoy`),
    resourceFolder: resolve(resources.slice('file:'.length)),
    tokenAuthFile: text('TOKEN_AUTH_FILE'),
    adminGroups: new Set(list('ADMIN_GROUPS', 'tollgate-admins')),
    maxExpirationDays: integer('API_KEY_MAX_EXPIRATION_DAYS', 90, 1, 36_500),
    // More would run into the listener's own time-out for answers.
    accessCheckTimeoutSeconds: integer('ACCESS_CHECK_TIMEOUT_SECONDS', 15, 1, 25),
    instanceName: text('INSTANCE_NAME') ?? text('GATEWAY_NAME') ?? 'maas-default-gateway',
    paths: pathRules(meterNames(), oneOf('UNMETERED_PATHS', ['open', 'closed'])),
    unusableUsage: oneOf('UNUSABLE_USAGE', ['allow', 'estimate']),
    bodyLimit: integer('BODY_LIMIT', 32 * 2 ** 20, 65_536, 2 ** 30),
    bodyTimeoutMs: duration('BODY_TIMEOUT', '60s', '1h', '1s'),
    envoyHeapBytes: integer('ENVOY_HEAP_BYTES', 2 ** 31, 2 ** 27, 2 ** 40),
    keyMarker,
    acceptedMarkers: new Set(
      list('API_KEY_MARKERS_ACCEPTED', 'tg,oai').map((written) =>
        markerOf('API_KEY_MARKERS_ACCEPTED', written),
      ),
    ),
    keyCacheEntries: integer('KEY_CACHE_ENTRIES', 100_000, 1, 10_000_000),
    keyCacheWarm: integer('KEY_CACHE_WARM', 10_000, 0, 100_000),
    keyCacheOutageGraceMs: duration('KEY_CACHE_OUTAGE_GRACE', '15m', '24h'),
    keyCacheRevalidateMs: duration('KEY_CACHE_REVALIDATE', '1s', '10s', '100ms'),
    replicaName: text('REPLICA_NAME') ?? nameReplica(grpcAddresses),
    replicaPlace: `${bootId()}/${nameReplica(grpcAddresses)}`,
    logLevel,
  }
  const named = new Set(problems.map(settingOf))
  problems.push(...check(config).filter((problem) => !named.has(settingOf(problem))))
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze(config)
}

function settingOf(problem: string): string {
  return problem.slice(0, problem.indexOf(':'))
}

/** Milliseconds; besides what keys know also `0` and `250ms`. */
function readDuration(written: string): number | undefined {
  const milliseconds = /^(\d{1,9})ms$/.exec(written)?.[1] ?? (written === '0' ? '0' : undefined)
  return milliseconds === undefined ? parseDuration(written) : Number(milliseconds)
}

/** `host:port` or `[v6]:port`; an empty host means every interface. */
function parseSocketAddress(written: string): SocketAddress | undefined {
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/\s]*)):(\d{1,5})$/.exec(written)
  if (parts === null || Number(parts[3]) > 65_535) return undefined
  return { host: parts[1] ?? (parts[2] || '0.0.0.0'), port: Number(parts[3]) }
}

function parseAddress(written: string): Address | undefined {
  const path = /^unix:(?:\/\/)?(\/.+)$/.exec(written)?.[1]
  return path === undefined ? parseSocketAddress(written) : { path }
}

/** A name that no other living process has: its address is its own, but for a port still to find. */
/** Another one whenever the machine starts; a random one where the system has none. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return randomUUID()
  }
}

function nameReplica([address]: readonly Address[]): string {
  const shown = address === undefined ? '' : `/${showAddress(address)}`
  const isFound = address !== undefined && 'port' in address && address.port === 0
  return `${hostname()}${shown}${isFound ? `#${process.pid}` : ''}`
}

/** As it is written in settings and logs. */
export function showAddress(address: Address): string {
  if ('path' in address) return `unix:${address.path}`
  return address.host.includes(':')
    ? `[${address.host}]:${address.port}`
    : `${address.host}:${address.port}`
}
