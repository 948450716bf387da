import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import {
  type BootstrapSettings,
  fillBootstrapTemplate,
  findAuthorities,
} from '../../src/gateway/bootstrap.ts'
import {
  parseBootstrapTemplate,
  readBootstrapTemplate,
} from '../../src/gateway/bootstrap-template.ts'
import { envoyPath } from './envoy-binary.ts'
import { poll } from './poll.ts'

/** A real Envoy with the bootstrap of this repository. */
export interface RunningEnvoy {
  /** The port for clients. */
  readonly port: number
  /** `host:port` of its admin page. */
  readonly admin: string
  readonly pid: number
  /** Everything that it has logged so far. */
  log(): string
}

/** What must exist before it starts: the service's addresses, and clusters.json. */
export interface EnvoySettings
  extends Pick<
    BootstrapSettings,
    | 'api'
    | 'grpc'
    | 'clustersFile'
    | 'lines'
    | 'bodyLimit'
    | 'bodyTimeoutMs'
    | 'chargesUnusable'
    | 'heapBytes'
    | 'allowedOrigins'
    | 'headersToModels'
    | 'certificateFile'
    | 'trustedHops'
    | 'tracing'
    | 'trustsTraces'
  > {
  /** The gateway's mark on requests to models. */
  readonly hopMark?: string
  /** An empty folder for its files. */
  readonly folder: string
  /** Threads; with one, responses are reported in the order in which clients saw them end. */
  readonly concurrency?: number
  /** The ports of its admin page and for clients; free ports by default. */
  readonly adminPort?: number | undefined
  readonly port?: number | undefined
  /** Changes its configuration, given as JSON. */
  readonly adjust?: ((bootstrap: string) => string) | undefined
  /** Takes over from the process of the previous epoch, with the same port and base id; by default starts anew. */
  readonly hotRestart?: { readonly baseId: number; readonly epoch: number }
}

/** Parsing its YAML takes 50 to 100 ms of CPU; a clone of the result shares what its anchors name. */
const template = parseBootstrapTemplate(readBootstrapTemplate())
const anyPort = { host: '127.0.0.1', port: 0 }

/** Starts it on free ports and waits until it serves; it is killed when `t` ends. */
export async function startEnvoy(t: Test, settings: EnvoySettings): Promise<RunningEnvoy> {
  const {
    folder,
    concurrency = 1,
    adjust = (same) => same,
    adminPort = 0,
    port = 0,
    hopMark = 'hop-of-no-service',
    hotRestart,
    ...places
  } = settings
  const bootstrap = join(folder, 'bootstrap.json')
  const adminFile = join(folder, 'admin-address')
  const authoritiesFile = findAuthorities()
  const admin = { ...anyPort, port: adminPort }
  const addresses = { gateway: { ...anyPort, port }, admin, hopMark, ...places, authoritiesFile }
  writeFileSync(bootstrap, adjust(fillBootstrapTemplate(structuredClone(template), addresses)))
  const child = spawn(
    envoyPath() ?? 'envoy',
    [
      ...['--config-path', bootstrap, '--concurrency', String(concurrency)],
      ...['--admin-address-path', adminFile, '--log-level', 'warning'],
      ...['--file-flush-interval-msec', '20'],
      ...(hotRestart === undefined
        ? ['--disable-hot-restart']
        : [
            ...[
              '--base-id',
              String(hotRestart.baseId),
              '--restart-epoch',
              String(hotRestart.epoch),
            ],
            ...['--drain-time-s', '1', '--parent-shutdown-time-s', '2'],
          ]),
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const ended = once(child, 'close')
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  t.teardown(async () => {
    kill()
    await ended
    process.off('exit', kill)
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })

  const address = () => (existsSync(adminFile) ? readFileSync(adminFile, 'utf8').trim() : '')
  await poll(async () => {
    if (child.exitCode !== null) throw new Error(`Envoy ended:\n${log}`)
    if (address() === '') return false
    const { status } = await fetch(`http://${address()}/ready`)
    return status === 200
  }, 'Envoy serves')
  return {
    port: await listenerPort(address()),
    admin: address(),
    pid: child.pid ?? 0,
    log: () => log,
  }
}

/** The value of one counter or gauge by its full name; NaN if there is none. */
export async function readStat(
  { admin }: Pick<RunningEnvoy, 'admin'>,
  name: string,
): Promise<number> {
  const filter = encodeURIComponent(`^${name}$`)
  const response = await fetch(`http://${admin}/stats?filter=${filter}`)
  return Number(/: (\d+)$/m.exec(await response.text())?.[1] ?? Number.NaN)
}

/**
 * Waits until Envoy considers every process of these clusters healthy. It does not use a restarted process before its
 * next health check; a test that ends another one meanwhile would leave none to use.
 */
export async function everyProcessIsAsked(
  envoy: Pick<RunningEnvoy, 'admin'>,
  clusters: readonly string[] = ['tollgate', 'api'],
): Promise<void> {
  for (const cluster of clusters) {
    const figure = (name: string) => readStat(envoy, `cluster.${cluster}.membership_${name}`)
    await poll(
      async () => (await figure('healthy')) === (await figure('total')),
      `${cluster} is healthy`,
      30_000,
    )
  }
}

interface Listeners {
  listener_statuses: { local_address: { socket_address: { port_value: number } } }[]
}

async function listenerPort(admin: string): Promise<number> {
  const response = await fetch(`http://${admin}/listeners?format=json`)
  const { listener_statuses } = (await response.json()) as Listeners
  const port = listener_statuses[0]?.local_address.socket_address.port_value
  if (port === undefined) throw new Error('Envoy has no listener')
  return port
}
