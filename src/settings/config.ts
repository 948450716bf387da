/**
 * Environment → one frozen Config, by the table in settings/all-settings.ts; reports all invalid variables
 * at once. Nothing else reads the environment. Secrets may come from files: NAME_FILE for NAME.
 */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { type Address, formatAddress, type SocketAddress } from '../formats/address.ts'
import { hopMark } from '../formats/hop-mark.ts'
import { hashOfKey } from '../keys/rules/api-key.ts'
import { pathRules } from '../operations/operations.ts'
import { type Setting, type Settings, settings } from './all-settings.ts'
import { readOtel } from './otel-variables.ts'
import { invalid } from './readers.ts'
import { removedSettings } from './removed-settings.ts'
import { isSampleInstallation } from './sample.ts'
import { type Environment, readSetting, textOf } from './setting.ts'

export { type Address, formatAddress, type SocketAddress }

/** The settings as they were read. */
type Read = {
  readonly [Key in keyof Settings]: Settings[Key] extends Setting<infer Value> ? Value : never
}

/** The settings, with those that depend on others. */
export type Config = Readonly<ReturnType<typeof derive>>

/** Has one line for each invalid variable. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`Bad settings:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

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
  const config = derive(Object.fromEntries(entries), env, problems)
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

function derive(all: Read, env: Environment, problems: string[]) {
  const { meterPaths, unmeteredPaths, ...read } = all
  const scheme = read.gatewayTlsCertFile === undefined ? 'http' : 'https'
  const { gatewayUrl: raw = `${scheme}://${formatAddress(read.gatewayAddress)}` } = read
  const gatewayUrl = raw.replace(/\/+$/, '')
  const markers = { own: read.keyMarker, accepted: read.acceptedMarkers }
  const ownName = nameReplica(read.grpcAddresses)
  const kubernetesTokenReview = read.kubernetesTokenReview ?? read.resourceFolder === undefined
  return {
    ...read,
    /** Whether the cluster verifies identity tokens and decides who is an administrator. */
    kubernetesTokenReview,
    /** Which operations are counted, and whether the others are open. */
    paths: pathRules(meterPaths, unmeteredPaths, (text) => hashOfKey(text, markers) !== undefined),
    // With the cluster's roles there is no default group: a provider could put any user into it.
    /** Administrators by group. */
    adminGroups:
      read.adminGroups ?? new Set<string>(kubernetesTokenReview ? [] : ['tollgate-admins']),
    /** Addresses under which Envoy reaches each process of the service. */
    gatewayGrpcEndpoints: read.gatewayGrpcEndpoints ?? read.grpcAddresses,
    gatewayApiEndpoints: read.gatewayApiEndpoints ?? [read.apiAddress],
    /** Public base URL, without a trailing slash; no request is sent there. */
    gatewayUrl,
    // Envoy holds up to 2 MiB of a body while Check decides, and reads on only if that is less than half of the limit.
    bodyLimit: Math.max(read.bodyLimit, 2 ** 23),
    /** Time for a request to arrive: a minute, and longer for bodies above 32 MiB. */
    bodyTimeoutMs: Math.max(1, Math.ceil(read.bodyLimit / 2 ** 25)) * 60_000,
    /** For invalid credentials and sign-ins from an address, which several users may share; no limit if undefined. */
    apiAddressRateLimit: read.apiRateLimit && {
      ...read.apiRateLimit,
      limit: 2 * read.apiRateLimit.limit,
    },
    /** The gateway's mark on requests to models. */
    hopMark: hopMark(gatewayUrl),
    /** A socket by default: the admin page cannot refuse a request that a model's address leads to. */
    envoyAdminAddress: read.envoyAdminAddress ?? {
      path: join(read.dataDir, 'envoy-admin.sock'),
    },
    /** The absolute path of the file in which the gateway writes its lines, or undefined if there is none. */
    usageJournal: isOff(env, settings.usageJournal)
      ? undefined
      : (read.usageJournal ?? join(read.dataDir, 'journal', 'usage.jsonl')),
    /** Folder of Envoy's files; absolute. */
    envoyConfigDir: read.envoyConfigDir ?? join(read.dataDir, 'envoy'),
    /** Folder of the files of revocations; absolute. */
    revocationLogDir: read.revocationLogDir ?? read.dataDir,
    /** The groups whose statuses are written in the cluster. */
    statusGroups: read.statusGroups ?? read.watchGroups.filter((group) => group === 'tollgate.dev'),
    /** The name of this process for revocations that wait for it. */
    replicaName: read.podName ?? ownName,
    instanceName: read.instanceName ?? (env.GATEWAY_NAME || 'maas-default-gateway'),
    // Not settings: kubectl's variable, variables that the cluster sets in each pod, and variables that `npm start`
    // sets for its service.
    /** The file with the access to the cluster's API server; the pod's service account is used if it is undefined. */
    kubeconfig: env.KUBECONFIG || undefined,
    /** The API server's address in a pod; undefined outside of a pod. */
    kubernetesHost: env.KUBERNETES_SERVICE_HOST || undefined,
    kubernetesPort: Number(env.KUBERNETES_SERVICE_PORT || 443),
    /** The code in the link that signs in to the sample, or undefined if there is no such link. */
    sampleSignInCode: env.SAMPLE_SIGN_IN_CODE || undefined,
    /** The current DATABASE_URL and REDIS_URL if files contain them, in their last valid version. */
    databaseUrlNow: rereader(env, settings.databaseUrl, read.databaseUrl),
    redisUrlNow: rereader(env, settings.redisUrl, read.redisUrl),
    /**
     * Identifies where this process runs: by the machine's last boot, and an address that only one process can have.
     */
    replicaPlace: `${bootId()}/${ownName}`,
    /** Nothing is exported if undefined. */
    otel: readOtel(env, problems),
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
  const { auditRequired, auditLog, drainMinMs, drainMs } = config
  const rules: readonly (readonly [isBroken: boolean, problem: string])[] = [
    [
      config.sampleSignInCode !== undefined && !isSampleInstallation(config),
      'SAMPLE_SIGN_IN_CODE: is only for the sample of npm start, on this machine',
    ],
    [
      auditRequired && auditLog === undefined,
      'AUDIT_REQUIRED: needs an audit trail, but AUDIT_LOG is off',
    ],
    [drainMinMs > drainMs, 'DRAIN_MIN_SECONDS: is more than DRAIN_SECONDS'],
  ]
  return [
    ...needed
      .filter(lacks)
      .map(([one, other]) => `${nameOf(other)}: has to be set, because ${nameOf(one)} is set`),
    ...useless
      .filter(lacks)
      .map(([one, other]) => `${nameOf(one)}: has no effect without ${nameOf(other)}; set both`),
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
  return (unset ?? []).map((name) => `${name}: must be set together with ${set?.join(' and ')}`)
}

function checkCluster(config: Config): readonly string[] {
  const { kubernetesTokenReview, resourceFolder, kubeconfig, kubernetesHost } = config
  if (kubeconfig !== undefined || kubernetesHost !== undefined) return []
  if (resourceFolder === undefined) return ['RESOURCES: needs KUBECONFIG outside of a cluster']
  return kubernetesTokenReview
    ? ['KUBERNETES_TOKEN_REVIEW: needs KUBECONFIG outside of a cluster']
    : []
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

/** A name that is unique among living processes, because the address is, unless its port is still to be chosen. */
function nameReplica([address]: readonly Address[]): string {
  const shown = address === undefined ? '' : `/${formatAddress(address)}`
  const isFound = address !== undefined && 'port' in address && address.port === 0
  return `${hostname()}${shown}${isFound ? `#${process.pid}` : ''}`
}
