/** The settings of `tollgate up`: those of the service, with the sample's files as defaults. */
import { join } from 'node:path'
import { type Config, ConfigError, loadConfig, type SocketAddress } from '../config.ts'
import { PACKAGE_ROOT } from '../package-root.ts'
import { checkDataDir, checkFiles } from '../wiring/check-files.ts'

/** What `up` starts from. */
export interface UpSettings {
  readonly config: Config
  readonly modelServer: SocketAddress
  /** Whether the resources are the sample's, and whether the identities are. */
  readonly sampleResources: boolean
  readonly sampleTokens: boolean
}

/** Where the sample resources say that the sample model server is. */
export const SAMPLE_MODEL_SERVER = '127.0.0.1:8090'

/** The sample resources as they ship. */
export const SAMPLE_RESOURCES = join(PACKAGE_ROOT, 'examples', 'resources')

const SAMPLE_TOKENS = join(PACKAGE_ROOT, 'examples', 'tokens.csv')

/**
 * Reads them. Throws a ConfigError that names every bad one; an address beyond this machine is bad
 * while the identities are the sample's, whose tokens everybody knows.
 */
export function readUpSettings(env: NodeJS.ProcessEnv): UpSettings {
  const problems: string[] = []
  const sampleResources = !env.RESOURCES
  const sampleTokens = !env.TOKEN_AUTH_FILE
  const modelServer = parseAddress(env.MODEL_SERVER_ADDRESS || SAMPLE_MODEL_SERVER)
  if (modelServer === undefined) {
    problems.push('MODEL_SERVER_ADDRESS: must be host:port, like 127.0.0.1:8090')
  }
  let config: Config | undefined
  try {
    const journal = join(env.DATA_DIR || '.data', 'journal', 'usage.jsonl')
    const withDefaults = {
      ...env,
      RESOURCES: env.RESOURCES || `file:${SAMPLE_RESOURCES}`,
      TOKEN_AUTH_FILE: env.TOKEN_AUTH_FILE || SAMPLE_TOKENS,
      USAGE_JOURNAL: env.USAGE_JOURNAL || journal,
    }
    config = loadConfig(withDefaults, (config) => [
      ...new Set([...checkDataDir(config), ...checkFiles(config)]),
    ])
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    problems.unshift(...error.problems)
  }
  if (config !== undefined) {
    for (const [setting, { host, port }] of Object.entries({
      GATEWAY_ADDRESS: config.gatewayAddress,
      API_ADDRESS: config.apiAddress,
      INTERNAL_ADDRESS: config.internalAddress,
      ...(config.metricsAddress && { METRICS_ADDRESS: config.metricsAddress }),
      ENVOY_ADMIN_ADDRESS: config.envoyAdminAddress,
    })) {
      if (port === 0) problems.push(`${setting}: must name a port`)
      if (sampleTokens && !isLoopback(host)) {
        problems.push(
          `${setting}: ${host} is not only this machine, and everybody knows the sample identities; set TOKEN_AUTH_FILE to a file of your own`,
        )
      }
    }
  }
  if (config === undefined || modelServer === undefined || problems.length > 0) {
    throw new ConfigError(problems)
  }
  return { config, modelServer, sampleResources, sampleTokens }
}

/** `http://host:port` as this machine reaches what listens there. */
export function localUrl({ host, port }: SocketAddress): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`
  if (host === '::') return `http://[::1]:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

function parseAddress(written: string): SocketAddress | undefined {
  const [, v6, name, digits] =
    /^(?:\[([\da-fA-F:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/.exec(written) ?? []
  const host = v6 ?? name
  const port = Number(digits)
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port }
}
