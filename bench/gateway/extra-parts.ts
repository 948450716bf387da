/** The processes beside the gateway: bare Envoys, and servers that answer Check. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startChild } from '../../dev/child.ts'
import type { SupervisedPart } from '../../dev/supervisor.ts'
import { waitForHttp } from '../../dev/wait-for-http.ts'
import type { SocketAddress } from '../../src/settings/config.ts'
import { isListening } from '../../test/support/is-listening.ts'
import { type PlainEnvoySettings, renderPlainEnvoy } from './plain-envoy.ts'
import type { Yardstick } from './yardsticks.ts'

/** Their environment. */
export interface Surroundings {
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
  readonly envoy: string
  readonly envoyThreads: number
}

const pollMs = 50

export function plainEnvoyPart(
  name: string,
  settings: PlainEnvoySettings,
  { folder, env, envoy, envoyThreads }: Surroundings,
): SupervisedPart {
  const file = fileName(name)
  return {
    name,
    async spawn() {
      const bootstrap = join(folder, `${file}.json`)
      writeFileSync(bootstrap, renderPlainEnvoy(settings))
      return startChild({
        name: file,
        command: envoy,
        args: [
          ...['--config-path', bootstrap, '--concurrency', String(envoyThreads)],
          ...['--log-level', 'warning', '--disable-hot-restart'],
        ],
        env,
        output: join(folder, 'log', `${file}.log`),
        records: join(folder, 'run'),
        ipc: false,
      })
    },
    ready: (signal) => waitForHttp(name, settings.admin, '/ready', signal),
  }
}

export function yardstickPart(
  name: string,
  { command, args, isNode }: Yardstick,
  listen: SocketAddress,
  { folder, env }: Surroundings,
): SupervisedPart {
  const file = fileName(name)
  return {
    name,
    spawn: async () =>
      startChild({
        name: file,
        command,
        args: [...args, `${listen.host}:${listen.port}`],
        env,
        output: join(folder, 'log', `${file}.log`),
        records: join(folder, 'run'),
        ipc: isNode,
      }),
    async ready(signal) {
      while (!(await isListening(listen.host, listen.port))) {
        await delay(pollMs, undefined, { signal })
      }
    },
  }
}

function fileName(name: string): string {
  return name.replaceAll(/[^A-Za-z]+/g, '-')
}
