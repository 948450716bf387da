/** The processes of `tollgate up`, in the order in which they start. */

import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { formatAddress, type SocketAddress } from '../src/formats/address.ts'
import { writeEnvoyFiles } from '../src/gateway/envoy-files.ts'
import { packageRoot } from '../src/runtime/package-root.ts'
import { withSettings } from '../src/settings/setting.ts'
import { startChild } from './child.ts'
import { createPostgresPart } from './postgres/postgres-part.ts'
import { createServiceLog } from './service-log.ts'
import type { SupervisedPart } from './supervisor.ts'
import type { UpSettings } from './up-settings.ts'
import { waitForHttp } from './wait-for-http.ts'

/** The inputs of the processes. */
interface PartsOptions {
  readonly env: NodeJS.ProcessEnv
  readonly settings: UpSettings
  /** Undefined for the cluster's resources. */
  readonly resourceFolder: string | undefined
  /** Path of the Envoy program. */
  readonly envoy: string
  readonly log: (line: string) => void
  /** Settings for the service only. */
  readonly serviceEnv?: NodeJS.ProcessEnv
  /** Where the sample model server listens; undefined if it is not started. */
  readonly modelServerAddress: SocketAddress | undefined
  /** Replaces the sample model server: another Node program that listens on its address. */
  readonly modelServer?: string
  /** The program that serves; by default the sources'. */
  readonly program?: string | undefined
  /** Node flags for the service. */
  readonly serviceFlags?: readonly string[]
  /** Threads of Envoy; up to four by default. */
  readonly envoyThreads?: number
}

const maxEnvoyThreads = 4

/** Postgres (unless DATABASE_URL names one), the sample model server if it is wanted, the service, Envoy. */
export function createParts(options: PartsOptions): SupervisedPart[] {
  const { env, settings, resourceFolder, envoy, log } = options
  const { config } = settings
  const records = join(config.dataDir, 'run')
  const logs = join(config.dataDir, 'log')
  const postgres = createPostgresPart(join(config.dataDir, 'postgres'), log)

  const sampleModelServer = (address: SocketAddress): SupervisedPart => ({
    name: 'the sample model server',
    spawn: async () =>
      startChild({
        name: 'model-server',
        command: process.execPath,
        args: [options.modelServer ?? join(packageRoot, 'examples', 'model-server.ts')],
        env: { ...env, MODEL_SERVER_ADDRESS: formatAddress(address) },
        output: join(logs, 'model-server.log'),
        records,
        ipc: true,
      }),
    ready: (signal) => waitForHttp('The sample model server', address, '/v1/models', signal),
    lastWords: () => lastLine(join(logs, 'model-server.log')),
  })

  const serviceLog = createServiceLog(join(logs, 'service.log'), log)
  const service: SupervisedPart = {
    name: 'the service',
    spawn: async () =>
      startChild({
        name: 'service',
        command: process.execPath,
        args: [
          ...(options.serviceFlags ?? []),
          options.program ?? join(packageRoot, 'src', 'cli', 'main.js'),
          'serve',
        ],
        env: withSettings(env, {
          ...options.serviceEnv,
          DATA_DIR: config.dataDir,
          ENVOY_CONFIG_DIR: config.envoyConfigDir,
          RESOURCES: resourceFolder === undefined ? 'kubernetes' : `file:${resourceFolder}`,
          TOKEN_AUTH_FILE: config.tokenAuthFile,
          USAGE_JOURNAL: config.usageJournal ?? 'off',
          AUDIT_LOG: config.auditLog ?? 'off',
          ...(config.databaseUrl === undefined && { DATABASE_URL: postgres.url() }),
        }),
        output: serviceLog.write,
        records,
        ipc: true,
      }),
    ready: (signal) => waitForHttp('The service', config.internalAddress, '/readyz', signal),
    lastWords: serviceLog.lastLine,
  }

  const gateway: SupervisedPart = {
    name: 'Envoy',
    async spawn() {
      const bootstrap = await writeEnvoyFiles(config)
      const threads = options.envoyThreads ?? Math.min(availableParallelism(), maxEnvoyThreads)
      return startChild({
        name: 'envoy',
        command: envoy,
        args: [
          ...['--config-path', bootstrap, '--concurrency', String(threads)],
          // Without hot restart, two Envoys on a machine never share memory by accident.
          ...['--log-level', 'warning', '--disable-hot-restart'],
          ...['--file-flush-interval-msec', '20'],
        ],
        env,
        output: join(logs, 'envoy.log'),
        records,
        ipc: false,
      })
    },
    ready: (signal) => waitForHttp('The gateway', config.gatewayAddress, '/health', signal),
    lastWords: () => lastLine(join(logs, 'envoy.log')),
  }

  const own = config.databaseUrl === undefined ? [postgres.part] : []
  const model = options.modelServerAddress
  return [...own, ...(model === undefined ? [] : [sampleModelServer(model)]), service, gateway]
}

function lastLine(file: string): string {
  try {
    return `${readFileSync(file, 'utf8').trim().split('\n').at(-1)} (${file})`
  } catch {
    return file
  }
}
