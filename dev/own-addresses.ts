/**
 * The addresses of the parts of `tollgate up` that are not used from outside: sockets in DATA_DIR/run and free ports,
 * so that only the gateway's own address has to be free.
 */

import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { type Address, formatAddress, type SocketAddress } from '../src/formats/address.ts'
import { withPathInErrors } from '../src/runtime/path-in-errors.ts'
import { settings } from '../src/settings/all-settings.ts'
import type { Config } from '../src/settings/config.ts'
import { readSetting, withSettings } from '../src/settings/setting.ts'

/** The addresses by setting. Envoy's admin page has its socket by default anyway. */
const own = (run: string): Readonly<Record<string, string>> => ({
  API_ADDRESS: `unix:${join(run, 'api.sock')}`,
  INTERNAL_ADDRESS: `unix:${join(run, 'internal.sock')}`,
  GRPC_ADDRESS: `unix:${join(run, 'grpc.sock')}`,
  // Requests on these sockets need no credential, so other users of this machine must not reach them.
  UNIX_SOCKET_MODE: '600',
  METRICS_ADDRESS: '127.0.0.1:0',
})

/** Whether a setting has a value, in the environment or in a file. */
export function isSet(env: NodeJS.ProcessEnv, name: string): boolean {
  return Boolean(env[name]?.trim() || env[`${name}_FILE`])
}

/** DATA_DIR alone, as an absolute path. */
export const dataDirOf = (env: NodeJS.ProcessEnv): string => readSetting(env, settings.dataDir, [])

/** The environment, with an address for each part that has none. */
export function withOwnAddresses(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return withMissing(env, own(join(dataDirOf(env), 'run')))
}

/** The environment, with these settings where they are missing. */
export function withMissing(
  env: NodeJS.ProcessEnv,
  defaults: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  const missing = Object.entries(defaults).filter(([name]) => !isSet(env, name))
  return { ...env, ...Object.fromEntries(missing) }
}

/** The addresses of the settings that service and Envoy listen on. */
export function listenersOf(config: Config): readonly (readonly [setting: string, Address])[] {
  return [
    ['GATEWAY_ADDRESS', config.gatewayAddress],
    ['API_ADDRESS', config.apiAddress],
    ['INTERNAL_ADDRESS', config.internalAddress],
    ...config.grpcAddresses.map((address) => ['GRPC_ADDRESS', address] as const),
    ...(config.metricsAddress ? [['METRICS_ADDRESS', config.metricsAddress] as const] : []),
    ['ENVOY_ADMIN_ADDRESS', config.envoyAdminAddress],
  ]
}

/** The environment with a free port in place of each port 0. Rejects if there is none. */
export async function nameFreePorts(
  env: NodeJS.ProcessEnv,
  config: Config,
): Promise<NodeJS.ProcessEnv> {
  const held: Server[] = []
  const listeners: (readonly [string, Address])[] = []
  try {
    for (const [setting, address] of listenersOf(config)) {
      const isOpen = 'port' in address && address.port === 0
      listeners.push([setting, isOpen ? { ...address, port: await hold(address, held) } : address])
    }
  } finally {
    // Ports stay open until the last one is chosen, so that they are all different.
    for (const server of held) server.close()
  }
  return withSettings(env, write(listeners))
}

/** A free port of this host. */
export async function freePort(host: string): Promise<number> {
  const held: Server[] = []
  const port = await hold({ host, port: 0 }, held)
  for (const server of held) server.close()
  return port
}

/** As in settings: several addresses of one name, separated by commas. */
function write(listeners: readonly (readonly [string, Address])[]): Record<string, string> {
  const raw: Record<string, string> = {}
  for (const [setting, address] of listeners) {
    const before = raw[setting] === undefined ? '' : `${raw[setting]},`
    raw[setting] = before + formatAddress(address)
  }
  return raw
}

async function hold({ host }: SocketAddress, held: Server[]): Promise<number> {
  const server = createServer()
  held.push(server)
  server.listen({ host, port: 0, exclusive: true })
  await once(server, 'listening')
  return (server.address() as { port: number }).port
}

const record = (dataDir: string) => join(dataDir, 'run', 'addresses.json')

/** Records for other commands where the parts listen; the next start removes it with the other records. */
export function recordAddresses(config: Config, modelServer: Address | undefined): void {
  const raw = {
    ...write([
      ...listenersOf(config),
      ...(modelServer ? [['MODEL_SERVER_ADDRESS', modelServer] as const] : []),
    ]),
    UNIX_SOCKET_MODE: config.socketMode.toString(8),
    USAGE_JOURNAL: config.usageJournal ?? 'off',
  }
  mkdirSync(join(config.dataDir, 'run'), { recursive: true })
  const file = record(config.dataDir)
  withPathInErrors(file, () => writeFileSync(file, `${JSON.stringify(raw, null, 2)}\n`))
}

/** The environment, with the addresses that a running `up` has recorded in DATA_DIR where they are missing. */
export function withRecordedAddresses(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  try {
    const noted = JSON.parse(readFileSync(record(dataDirOf(env)), 'utf8'))
    return withMissing(env, noted)
  } catch {
    return env
  }
}
