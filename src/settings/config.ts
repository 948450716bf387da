/**
 * Environment → one frozen Config, by the table in settings/table.ts; reports all invalid variables
 * at once. Nothing else reads the environment. Secrets may come from files: NAME_FILE for NAME.
 */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { type Address, type SocketAddress, showAddress } from '../formats/address.ts'
import { hopMark } from '../formats/hop.ts'
import { hashOfKey } from '../keys/rules/api-key.ts'
import { pathRules } from '../operations/operations.ts'
import { invalid } from './readers.ts'
import { removedSettings } from './removed.ts'
import { isSample } from './sample.ts'
import { type Setting, type Settings, settings } from './table.ts'

export { type Address, type SocketAddress, showAddress }

/** The settings as they were read. */
type Read = {
  readonly [Key in keyof Settings]: Settings[Key] extends Setting<infer Value> ? Value : never
}

/** The settings, with those that depend on others. */
export type Config = Readonly<ReturnType<typeof derive>>

/** Settings for the OpenTelemetry SDK. */
export interface Otel {
  /** The protocol of spans; undefined: they are not sent. */
  readonly traces: 'http/protobuf' | 'grpc' | undefined
  readonly metrics: 'http/protobuf' | 'grpc' | undefined
  /** Whether the gateway traces. */
  readonly gateway: boolean
  /** The variables that the SDK reads itself. */
  readonly env: Readonly<Record<string, string>>
}

/** Has one line for each invalid variable. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`Bad settings:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads the settings; throws a ConfigError that names all invalid ones. `check` returns further
 * problems, as lines that begin with the setting's name.
 */
export function loadConfig(
  env: Environment,
  check: (config: Config) => readonly string[] = () => [],
): Config {
  const problems = [...removedIn(env)]
  const entries = Object.entries(settings).map(([key, setting]) => [
    key,
    readSetting(env, setting as Setting<unknown>, problems),
  ])
  const config = derive(Object.fromEntries(entries), env)
  problems.push(...checkTogether(config))
  const named = new Set(problems.map(settingOf))
  problems.push(...check(config).filter((problem) => !named.has(settingOf(problem))))
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze(config)
}

function removedIn(env: Environment): readonly string[] {
  return Object.entries(removedSettings)
    .filter(([name]) => env[name] || env[`${name}_FILE`])
    .map(([name, instead]) => `${name}: was removed; ${instead}`)
}

/** The value; if it is invalid, the default, and a problem is recorded. */
function readSetting<T>(env: Environment, setting: Setting<T>, problems: string[]): T {
  const { name, fallback, reader } = setting
  const written = textOf(env, name, problems)
  const value = written === undefined ? invalid : reader.read(written)
  if (value !== invalid) return value
  if (written !== undefined) {
    const shown = reader.secret ? '' : `, is "${written}"`
    problems.push(`${name}: must be ${reader.form.replaceAll('`', '')}${shown}`)
  }
  // The table's defaults are valid, and a setting without one may be undefined.
  return (fallback === undefined ? undefined : reader.read(fallback)) as T
}

function textOf(env: Environment, name: string, problems: string[]): string | undefined {
  const file = env[`${name}_FILE`]
  if (!file) return env[name]?.trim() || undefined
  if (env[name]) problems.push(`${name}: set either ${name} or ${name}_FILE, not both`)
  try {
    return readFileSync(file, 'utf8').trim() || undefined
  } catch {
    problems.push(`${name}_FILE: cannot read ${file}`)
    return undefined
  }
}

/** Whether a setting that has a default is written `off`. */
function isOff(env: Environment, { name }: Setting<unknown>): boolean {
  return textOf(env, name, []) === 'off'
}

/** Reads a secret from its file again, so that it can change without a restart. */
function rereader(
  env: Environment,
  { name, reader }: Setting<string | undefined>,
  first: string | undefined,
): () => string {
  const file = env[`${name}_FILE`]
  let last = first ?? ''
  return () => {
    if (!file) return last
    try {
      const value = reader.read(readFileSync(file, 'utf8').trim())
      if (value !== invalid && value !== undefined) last = value
    } catch {
      // The file is being replaced or is gone: the previous value may still be valid.
    }
    return last
  }
}

function derive(all: Read, env: Environment) {
  const { gatewayName, meterPaths, unmeteredPaths, ...rest } = all
  const { admissionMode, admissionOvershootPercent, admissionCharge, ...read } = rest
  const scheme = read.gatewayTlsCertFile === undefined ? 'http' : 'https'
  const { gatewayUrl: written = `${scheme}://${showAddress(read.gatewayAddress)}` } = read
  const gatewayUrl = written.replace(/\/+$/, '')
  const markers = { own: read.keyMarker, accepted: read.acceptedMarkers }
  const ownName = nameReplica(read.grpcAddresses)
  return {
    ...read,
    /** Which operations are counted, and whether the others are open. */
    paths: pathRules(meterPaths, unmeteredPaths, (text) => hashOfKey(text, markers) !== undefined),
    /** How Subscriptions admit that do not say it. */
    admission: {
      mode: admissionMode,
      overshoot: admissionOvershootPercent / 100,
      charge: admissionCharge,
    },
    // With the cluster's roles there is no default group: a provider could put anybody into it.
    /** Administrators by group. */
    adminGroups:
      read.adminGroups ?? new Set<string>(read.kubernetesTokenReview ? [] : ['tollgate-admins']),
    /** Addresses under which Envoy reaches each process of the service. */
    gatewayGrpcEndpoints: read.gatewayGrpcEndpoints ?? read.grpcAddresses,
    gatewayApiEndpoints: read.gatewayApiEndpoints ?? [read.apiAddress],
    /** Public base URL, without a trailing slash; no request is sent there. */
    gatewayUrl,
    /** The gateway's mark on requests to models. */
    hopMark: read.hopMark ?? hopMark(gatewayUrl),
    /** A socket by default: the admin page cannot refuse a request that a model's address leads to. */
    envoyAdminAddress: read.envoyAdminAddress ?? {
      path: join(read.dataDir, 'envoy-admin.sock'),
    },
    /** The file in which the gateway writes its lines; absolute. undefined: there is none. */
    usageJournal: isOff(env, settings.usageJournal)
      ? undefined
      : (read.usageJournal ?? join(read.dataDir, 'journal', 'usage.jsonl')),
    /** Folder of Envoy's files; absolute. */
    envoyConfigDir: read.envoyConfigDir ?? join(read.dataDir, 'envoy'),
    /** Folder of the files of revocations; absolute. */
    revocationLogDir: read.revocationLogDir ?? read.dataDir,
    /** The groups whose statuses are written in the cluster. */
    statusGroups: read.statusGroups ?? read.watchGroups.filter((group) => group === 'tollgate.dev'),
    /** Name of this installation; part of the names of service-account groups (contract, 3.9). */
    instanceName: read.instanceName ?? gatewayName ?? 'maas-default-gateway',
    /** The name of this process where a revocation waits for it. */
    replicaName: read.replicaName ?? read.podName ?? ownName,
    /** The current DATABASE_URL and REDIS_URL, if files contain them; the last valid ones. */
    databaseUrlNow: rereader(env, settings.databaseUrl, read.databaseUrl),
    redisUrlNow: rereader(env, settings.redisUrl, read.redisUrl),
    /**
     * Where it runs: this machine since its last boot, and an address that only one process can
     * have.
     */
    replicaPlace: `${bootId()}/${ownName}`,
    /** Settings for exports; undefined: nothing is exported. */
    otel: deriveOtel(all, env),
  }
}

/** Exports need an endpoint or an explicit exporter. */
function deriveOtel(read: Read, env: Environment): Otel | undefined {
  const { otelEndpoint: both, otelTracesExporter, otelMetricsExporter, otelProtocol } = read
  const exportsTo = (exporter: string | undefined, endpoint: string | undefined): boolean =>
    exporter === undefined ? (endpoint ?? both) !== undefined : exporter === 'otlp'
  const traces = exportsTo(otelTracesExporter, read.otelTracesEndpoint)
  const metrics = exportsTo(otelMetricsExporter, read.otelMetricsEndpoint)
  if (read.otelDisabled || (!traces && !metrics)) return undefined
  const named = Object.entries(env).filter(([name]) => /^OTEL_/.test(name) && !/_FILE$/.test(name))
  const secrets = {
    OTEL_EXPORTER_OTLP_HEADERS: read.otelHeaders,
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: read.otelTracesHeaders,
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: read.otelMetricsHeaders,
  }
  const all = [...named, ...Object.entries(secrets)]
  return {
    traces: traces ? (read.otelTracesProtocol ?? otelProtocol) : undefined,
    metrics: metrics ? (read.otelMetricsProtocol ?? otelProtocol) : undefined,
    gateway: otelTracesExporter === 'otlp',
    env: Object.fromEntries(all.flatMap(([name, value]) => (value ? [[name, value]] : []))),
  }
}

type Pair = readonly [one: keyof Config & keyof Settings, other: keyof Config & keyof Settings]

/** The first of each pair requires the second. */
const needed: readonly Pair[] = [
  ['notifyUrl', 'notifySecret'],
  ['oidcIssuerUrl', 'oidcClientIds'],
  ['gatewayTlsCertFile', 'gatewayTlsKeyFile'],
  ['gatewayTlsKeyFile', 'gatewayTlsCertFile'],
  ['tlsCertFile', 'tlsKeyFile'],
]
/** The first of each pair is useless without the second. */
const useless: readonly Pair[] = [
  ['notifySecret', 'notifyUrl'],
  ['oidcClientIds', 'oidcIssuerUrl'],
  ['tlsKeyFile', 'tlsCertFile'],
  ['tlsClientCaFile', 'tlsCertFile'],
]

/** Settings that are invalid only in combination. */
function checkTogether(config: Config): readonly string[] {
  const lacks = ([one, other]: Pair) => config[one] !== undefined && config[other] === undefined
  const nameOf = (key: keyof Settings): string => settings[key].name
  const { auditRequired, auditLog, metricsUser, metricsUserKey, drainMinMs, drainMs } = config
  const rules: readonly (readonly [isBroken: boolean, problem: string])[] = [
    [
      config.sampleSignInCode !== undefined && !isSample(config),
      'SAMPLE_SIGN_IN_CODE: is only for the sample of npm start, on this machine',
    ],
    [auditRequired && auditLog === undefined, 'AUDIT_REQUIRED: needs a trail; AUDIT_LOG is off'],
    [
      metricsUser === 'hash' && metricsUserKey === undefined,
      'METRICS_USER_KEY: has to be set beside METRICS_USER=hash',
    ],
    [drainMinMs > drainMs, 'DRAIN_MIN_SECONDS: is more than DRAIN_SECONDS'],
  ]
  return [
    ...needed
      .filter(lacks)
      .map(([one, other]) => `${nameOf(other)}: has to be set beside ${nameOf(one)}`),
    ...useless
      .filter(lacks)
      .map(([one, other]) => `${nameOf(one)}: is of no use without ${nameOf(other)}`),
    ...rules.flatMap(([isBroken, problem]) => (isBroken ? problem : [])),
    ...checkCluster(config),
    ...checkGroups(config),
    ...checkPod(config),
  ]
}

/** All or none; reports the missing ones. */
function checkPod({ podNamespace, podName, podUid }: Config): readonly string[] {
  const all = { POD_NAMESPACE: podNamespace, POD_NAME: podName, POD_UID: podUid }
  const [set, unset] = [true, false].map((is) =>
    Object.entries(all).flatMap(([name, value]) => ((value !== undefined) === is ? [name] : [])),
  )
  if (set?.length === 0) return []
  return (unset ?? []).map((name) => `${name}: has to be set beside ${set?.join(' and ')}`)
}

function checkCluster(config: Config): readonly string[] {
  const { kubernetesTokenReview, resourceFolder, kubeconfig, kubernetesHost } = config
  if (kubeconfig !== undefined || kubernetesHost !== undefined) return []
  return [
    ...(kubernetesTokenReview ? ['KUBERNETES_TOKEN_REVIEW'] : []),
    ...(resourceFolder === undefined ? ['RESOURCES'] : []),
  ].map((setting) => `${setting}: needs KUBECONFIG outside of a cluster`)
}

function checkGroups({ statusGroups, watchGroups }: Config): readonly string[] {
  return statusGroups
    .filter((group) => !watchGroups.includes(group))
    .map((group) => `STATUS_GROUPS: names ${group}, which WATCH_GROUPS leaves out`)
}

function settingOf(problem: string): string {
  return problem.slice(0, problem.indexOf(':'))
}

/** Changes whenever the machine boots; random if the system has none. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return randomUUID()
  }
}

/**
 * A name unique among living processes, because its address is, unless its port is still to be
 * chosen.
 */
function nameReplica([address]: readonly Address[]): string {
  const shown = address === undefined ? '' : `/${showAddress(address)}`
  const isFound = address !== undefined && 'port' in address && address.port === 0
  return `${hostname()}${shown}${isFound ? `#${process.pid}` : ''}`
}
