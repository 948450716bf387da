/** The settings of `tollgate up`: the service's, with the sample files as defaults. */

import { join } from 'node:path'
import { localHost, showAddress } from '../core/formats/address.ts'
import { isLoopback } from '../core/formats/trustworthy.ts'
import { packageRoot } from '../runtime/package-root.ts'
import { checkDataDir, checkFiles } from '../settings/check-files.ts'
import { type Config, ConfigError, loadConfig, type SocketAddress } from '../settings/config.ts'
import { settings } from '../settings/table.ts'

/** The inputs of `up`. */
export interface UpSettings {
  readonly config: Config & {
    readonly internalAddress: SocketAddress
  }
  /** Whether the resources are the sample's, and whether the identities are. */
  readonly sampleResources: boolean
  readonly sampleTokens: boolean
}

/** The sample model server's address in the sample resources. */
export const sampleModelServer = settings.modelServerAddress.fallback

/** The shipped sample resources. */
export const sampleResourceFolder = join(packageRoot, 'examples', 'resources')

const sampleTokensFile = join(packageRoot, 'examples', 'tokens.csv')

/**
 * Reads the settings. Throws a ConfigError that names all invalid ones, `check`'s included. An
 * address beyond this machine is invalid with the sample's identities, whose tokens are public.
 */
export function readUpSettings(
  env: NodeJS.ProcessEnv,
  check: (config: Config) => readonly string[] = checkFiles,
): UpSettings {
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
    ...new Set([...checkDataDir(config), ...check(config)]),
    ...checkOwnEnvoy(config),
    ...(isSocketAddress(config) ? checkAddresses(config, sampleTokens) : []),
  ])
  if (!isSocketAddress(config)) throw new ConfigError(checkOwnEnvoy(config))
  return { config, sampleResources, sampleTokens }
}

function isSocketAddress(config: Config): config is UpSettings['config'] {
  return 'port' in config.internalAddress
}

/**
 * Settings that only apply to an Envoy started elsewhere: this Envoy and the service use plain
 * HTTP.
 */
function checkOwnEnvoy(config: Config): readonly string[] {
  return [
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
    ...('host' in config.envoyAdminAddress && { ENVOY_ADMIN_ADDRESS: config.envoyAdminAddress }),
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

/** `http://host:port` at which this machine reaches the listener. */
export function localUrl({ host, port }: SocketAddress): string {
  return `http://${showAddress({ host: localHost(host), port })}`
}
