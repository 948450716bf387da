/** The settings of `tollgate up`: the service's, with the sample files as defaults. */

import { join } from 'node:path'
import { formatAddress, loopbackIfWildcard } from '../src/formats/address.ts'
import { isLoopback } from '../src/formats/trustworthy.ts'
import { checkListeners } from '../src/gateway/envoy-files.ts'
import { settings } from '../src/settings/all-settings.ts'
import { checkDataDir, checkFiles } from '../src/settings/check-files.ts'
import { type Config, loadConfig, type SocketAddress } from '../src/settings/config.ts'
import { allMeterNames } from '../src/settings/describe-paths.ts'
import { sampleResourceFolder, sampleTokensFile } from '../src/settings/sample.ts'
import { journalPlace } from './journal-place.ts'
import {
  dataDirOf,
  isSet,
  listenersOf,
  nameFreePorts,
  withMissing,
  withOwnAddresses,
} from './own-addresses.ts'

/** The inputs of `up`. */
export interface UpSettings {
  /** The environment that they are read from, with the defaults of `up`; the environment of the service. */
  readonly env: NodeJS.ProcessEnv
  readonly config: Config
  /** Whether the resources are the sample's, and whether the identities are. */
  readonly sampleResources: boolean
  readonly sampleTokens: boolean
}

/** The sample model server's address in the sample resources. */
export const sampleModelServer = settings.modelServerAddress.fallback

/**
 * Reads the settings. Throws a ConfigError that names all invalid ones, `check`'s included. An
 * address beyond this machine is invalid with the sample's identities, whose tokens are public.
 */
export function readUpSettings(
  env: NodeJS.ProcessEnv,
  check: (config: Config) => readonly string[] = checkFiles,
): UpSettings {
  const sampleResources = !isSet(env, 'RESOURCES')
  const sampleTokens = !isSet(env, 'TOKEN_AUTH_FILE')
  const dataDir = dataDirOf(env)
  const withDefaults = withMissing(withOwnAddresses(env), {
    RESOURCES: `file:${sampleResourceFolder}`,
    TOKEN_AUTH_FILE: sampleTokensFile,
    ...(!isSet(env, 'USAGE_JOURNAL') && {
      USAGE_JOURNAL: join(journalPlace(dataDir), 'usage.jsonl'),
    }),
    AUDIT_LOG: join(dataDir, 'audit', 'audit.jsonl'),
    // Agents also use the other operations of its models, and no bill depends on which operations were counted before.
    ...(sampleResources && { METER_PATHS: allMeterNames }),
  })
  const config = loadConfig(withDefaults, (config) => [
    ...new Set([...checkDataDir(config), ...check(config)]),
    ...checkOwnEnvoy(config),
    ...(sampleTokens ? checkSampleTokens(config) : []),
  ])
  return { env: withDefaults, config, sampleResources, sampleTokens }
}

/** The settings with a free port in place of each port 0. */
export async function withFreePorts(read: UpSettings): Promise<UpSettings> {
  const env = await nameFreePorts(read.env, read.config)
  return { ...read, env, config: loadConfig(env) }
}

/**
 * Settings that only apply to an Envoy started elsewhere: this Envoy and the service use plain
 * HTTP, and it listens on this machine.
 */
function checkOwnEnvoy(config: Config): readonly string[] {
  return [
    ...checkListeners(config),
    ...(config.gatewayTlsCertFile === undefined
      ? []
      : ['GATEWAY_TLS_CERT_FILE: is for an Envoy of your own: tollgate envoy-config']),
    ...(config.tlsCertFile === undefined
      ? []
      : [
          'TLS_CERT_FILE: is for tollgate serve; this Envoy asks the service on this machine, in the clear',
        ]),
  ]
}

function checkSampleTokens(config: Config): readonly string[] {
  const listeners = [
    ...listenersOf(config),
    ['MODEL_SERVER_ADDRESS', config.modelServerAddress] as const,
  ]
  return listeners.flatMap(([setting, address]) =>
    'path' in address || isLoopback(address.host)
      ? []
      : `${setting}: ${address.host} is reachable from other machines, but the sample identities are public; set TOKEN_AUTH_FILE to your own file`,
  )
}

/** `http://host:port` at which this machine reaches the listener. */
export function localUrl({ host, port }: SocketAddress): string {
  return `http://${formatAddress({ host: loopbackIfWildcard(host), port })}`
}
