/** A complete gateway on free ports and in a temporary folder, with a bare Envoy and yardsticks. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { findEnvoy } from '../../dev/envoy-binary.ts'
import { inMemory } from '../../dev/journal-place.ts'
import { createParts } from '../../dev/parts.ts'
import { createSupervisor, type SupervisedPart } from '../../dev/supervisor.ts'
import { localUrl, readUpSettings } from '../../dev/up-settings.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { StartError } from '../../src/runtime/start-error.ts'
import type { SocketAddress } from '../../src/settings/config.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { type Burst, measureBursts } from './burst.ts'
import { plainEnvoyPart, yardstickPart } from './extra-parts.ts'
import type { Subject } from './measure.ts'
import { mintKeys } from './mint-keys.ts'
import { token, tokenLine, writeResources } from './sample-world.ts'
import { findYardsticks } from './yardsticks.ts'

/** Options of the gateway. */
export interface WorldOptions {
  readonly env: NodeJS.ProcessEnv
  /** Settings of the service, by name. */
  readonly set: Readonly<Record<string, string>>
  /** Threads of each Envoy. */
  readonly envoyThreads: number
  readonly yardsticks: boolean
  readonly log: (line: string) => void
}

/** The servers to measure. */
export interface World {
  /** `bare`, `gateway`, then the yardsticks. */
  readonly subjects: readonly Subject[]
  readonly keys: readonly string[]
  readonly measureBursts: () => Promise<readonly Burst[]>
  /** Rejects when a measured process has ended. */
  readonly broken: Promise<never>
}

const keyCount = 16
const addresses = ['GATEWAY', 'API', 'INTERNAL', 'GRPC', 'METRICS', 'ENVOY_ADMIN', 'MODEL_SERVER']
const here = join(packageRoot, 'bench', 'gateway')

/** Can be stopped during its start. */
export function createWorld(options: WorldOptions) {
  const { env, set, envoyThreads, log } = options
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  // As root, Postgres runs as another user, who must be able to enter it.
  chmodSync(folder, 0o755)
  const supervisor = createSupervisor(log)
  const pids = new Map<string, number>()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => {})

  async function start(part: SupervisedPart): Promise<void> {
    supervisor.ending.throwIfAborted()
    log(`Starting ${part.name}`)
    await supervisor.start(once(part))
  }

  /** A part that is not restarted: its figures would mix two processes. */
  function once(part: SupervisedPart): SupervisedPart {
    return {
      ...part,
      async spawn() {
        const child = await part.spawn()
        pids.set(part.name, child.pid)
        void child.exited.then((how) => {
          if (supervisor.ending.aborted) return
          const said = part.lastWords?.() ?? ''
          broken.reject(new StartError(`${part.name} ended while it was measured (${how}) ${said}`))
        })
        return child
      },
    }
  }

  async function startAll(): Promise<World> {
    const signal = supervisor.ending
    const yardsticks = options.yardsticks ? await findYardsticks(env, folder, log, signal) : []
    const ports = await freePorts(addresses.length + 2 + 3 * yardsticks.length)
    const nextPort = (): SocketAddress => ({ host: '127.0.0.1', port: ports.shift() ?? 0 })
    const probe = join(folder, 'probes')
    mkdirSync(probe)
    // Ignores the caller's own settings: a bench must not write to a real database.
    const settings = {
      ...set,
      DATA_DIR: join(folder, 'data'),
      // As the folder of the journal has it.
      UNIX_SOCKET_MODE: '600',
      RESOURCES: `file:${join(folder, 'resources')}`,
      TOKEN_AUTH_FILE: join(folder, 'tokens.csv'),
      ...Object.fromEntries(
        addresses.map((name) => [`${name}_ADDRESS`, `127.0.0.1:${nextPort().port}`]),
      ),
      ...(env.ENVOY_PATH && { ENVOY_PATH: env.ENVOY_PATH }),
    } as Record<string, string>
    writeResources(join(folder, 'resources'), `http://${settings.MODEL_SERVER_ADDRESS}`)
    writeFileSync(join(folder, 'tokens.csv'), tokenLine)
    const read = readUpSettings(settings)
    const { config } = read
    const envoy = await findEnvoy({ path: config.envoyPath, env, log, signal })
    const parts = createParts({
      env: { PATH: env.PATH, HOME: env.HOME, BENCH_PROBE: probe, ...settings },
      settings: read,
      resourceFolder: config.resourceFolder,
      modelServerAddress: config.modelServerAddress,
      envoy,
      envoyThreads,
      modelServer: join(here, 'model-server.ts'),
      serviceFlags: ['--import', pathToFileURL(join(here, 'probe.ts')).href],
      log,
    })
    for (const part of parts) await start(part)
    const surroundings = { folder, env, envoy, envoyThreads }
    const { modelServerAddress: modelServer } = config

    async function startPlain(name: string, authorizer?: SocketAddress): Promise<Subject> {
      const listen = nextPort()
      const places = { listen, admin: nextPort(), modelServer, authorizer }
      await start(plainEnvoyPart(`the Envoy of ${name}`, places, surroundings))
      return { name, url: localUrl(listen), envoy: pids.get(`the Envoy of ${name}`) }
    }

    const bare = await startPlain('bare')
    const others: Subject[] = []
    for (const yardstick of yardsticks) {
      const { name } = yardstick
      const listen = nextPort()
      await start(yardstickPart(`the yardstick ${name}`, yardstick, listen, surroundings))
      const service = pids.get(`the yardstick ${name}`)
      others.push({ ...(await startPlain(name, listen)), service, isYardstick: true })
    }
    const url = localUrl(config.gatewayAddress)
    const keys = await mintKeys({ gateway: url, token, count: keyCount, signal })
    const service = pids.get('the service')
    const gateway: Subject = { name: 'gateway', url, envoy: pids.get('Envoy'), service, probe }
    return {
      ...{ subjects: [bare, gateway, ...others], keys, broken: broken.promise },
      measureBursts: () => measureBursts({ gateway: url, token, signal }),
    }
  }

  const remove = (): void => {
    for (const each of [folder, ...inMemory(join(folder, 'data'))]) {
      rmSync(each, { recursive: true, force: true })
    }
  }
  return {
    /** Rejects if it fails; call `stop` then too. */
    start: startAll,
    /**
     * Stops everything and removes its folder. Resolves when nothing is left; may be called twice.
     */
    async stop(): Promise<void> {
      await supervisor.stop()
      remove()
    },
    /** Ends it at once, not gracefully. */
    kill(): void {
      supervisor.kill()
      remove()
    },
  }
}
