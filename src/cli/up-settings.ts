/** The settings of `tollgate up`: those of the service, with the sample's files as defaults. */

import { join } from 'node:path'
import { type Config, ConfigError, loadConfig, type SocketAddress } from '../config.ts'
import { isLoopback } from '../core/trustworthy.ts'
import { packageRoot } from '../package-root.ts'
import { localHost, showAddress } from '../settings/address.ts'
import { settings } from '../settings/table.ts'
import { checkDataDir, checkFiles } from '../wiring/check-files.ts'

/** What `up` starts from. */
export interface UpSettings {
  readonly config: Config & {
    readonly envoyAdminAddress: SocketAddress
    readonly internalAddress: SocketAddress
  }
  /** Whether the resources are the sample's, and whether the identities are. */
  readonly sampleResources: boolean
  readonly sampleTokens: boolean
}

/** Where the sample resources say that the sample model server is. */
export const sampleModelServer = settings.modelServerAddress.fallback

/** The sample resources as they ship. */
export const sampleResourceFolder = join(packageRoot, 'examples', 'resources')

const sampleTokensFile = join(packageRoot, 'examples', 'tokens.csv')

/**
 * Reads them. Throws a ConfigError that names every bad one; an address beyond this machine is bad
 * while the identities are the sample's, whose tokens everybody knows.
 */
export function readUpSettings(env: NodeJS.ProcessEnv): UpSettings {
  const sampleResources = !env.RESOURCES
  const sampleTokens = !env.TOKEN_AUTH_FILE
  const journal = join(env.DATA_DIR || '.data', 'journal', 'usage.jsonl')
  const audit = join(env.DATA_DIR || '.data', 'audit', 'audit.jsonl')
  const withDefaults = {
    ...env,
    RESOURCES: env.RESOURCES || `file:${sampleResourceFolder}`,
    TOKEN_AUTH_FILE: env.TOKEN_AUTH_FILE || sampleTokensFile,
    USAGE_JOURNAL: env.USAGE_JOURNAL || journal,
    AUDIT_LOG: env.AUDIT_LOG || audit,
  }
  const config = loadConfig(withDefaults, (config) => [
    ...new Set([...checkDataDir(config), ...checkFiles(config)]),
    ...checkOwnEnvoy(config),
    ...(areSocketAddresses(config) ? checkAddresses(config, sampleTokens) : []),
  ])
  if (!areSocketAddresses(config)) throw new ConfigError(checkOwnEnvoy(config))
  return { config, sampleResources, sampleTokens }
}

function areSocketAddresses(config: Config): config is UpSettings['config'] {
  return 'port' in config.envoyAdminAddress && 'port' in config.internalAddress
}

/** What is for an Envoy that somebody else starts: this one, and the service, are asked by plain HTTP. */
function checkOwnEnvoy(config: Config): readonly string[] {
  return [
    ...('port' in config.envoyAdminAddress ? [] : ['ENVOY_ADMIN_ADDRESS: must be host:port here']),
    ...('port' in config.internalAddress ? [] : ['INTERNAL_ADDRESS: must be host:port here']),
    ...(config.gatewayTlsCertFile === undefined
      ? []
      : ['GATEWAY_TLS_CERT_FILE: is for an Envoy of your own: tollgate envoy-config']),
  ]
}

function checkAddresses(config: UpSettings['config'], sampleTokens: boolean): readonly string[] {
  const problems: string[] = []
  if (config.tlsCertFile !== undefined) {
    problems.push(
      'TLS_CERT_FILE: is for tollgate serve; this Envoy asks the service on this machine, in the clear',
    )
  }
  for (const [setting, { host, port }] of Object.entries({
    GATEWAY_ADDRESS: config.gatewayAddress,
    ...('host' in config.apiAddress && { API_ADDRESS: config.apiAddress }),
    INTERNAL_ADDRESS: config.internalAddress,
    ...(config.metricsAddress && { METRICS_ADDRESS: config.metricsAddress }),
    ENVOY_ADMIN_ADDRESS: config.envoyAdminAddress,
    MODEL_SERVER_ADDRESS: config.modelServerAddress,
  })) {
    if (port === 0) problems.push(`${setting}: must name a port`)
    if (sampleTokens && !isLoopback(host)) {
      problems.push(
        `${setting}: ${host} is not only this machine, and everybody knows the sample identities; set TOKEN_AUTH_FILE to a file of your own`,
      )
    }
  }
  return problems
}

/** `http://host:port` as this machine reaches what listens there. */
export function localUrl({ host, port }: SocketAddress): string {
  return `http://${showAddress({ host: localHost(host), port })}`
}
