import { pino } from 'pino'
import type { Test } from 'tap'
import {
  type ClusterController,
  startClusterController,
} from '../../../src/cluster/controller/cluster-controller.ts'
import { loadConfig } from '../../../src/settings/config.ts'
import { controllerDatabase } from './controller-database.ts'
import { writeKubeconfig } from './kubeconfig.ts'
import type { World } from './world.ts'

export interface TestController extends ClusterController {
  /** The lines of its log. */
  readonly lines: readonly string[]
}

/**
 * A controller for a cluster, started as the command does, with additional settings; it ends with
 * `t`.
 */
export async function startTestController(
  t: Test,
  world: World,
  env: Readonly<Record<string, string>> = {},
): Promise<TestController> {
  const lines: string[] = []
  const controller = await startClusterController({
    config: loadConfig({
      RESOURCES: 'kubernetes',
      KUBECONFIG: writeKubeconfig(t, world.access),
      GATEWAY_URL: 'https://models.example',
      ...env,
    }),
    database: env.DATABASE_URL ? controllerDatabase(t, env.DATABASE_URL) : undefined,
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    clock: Date.now,
    leaseMs: [5_000, 1_000],
    originalMs: 1_000,
  })
  t.teardown(() => controller.stop())
  return Object.defineProperties(controller, { lines: { value: lines } }) as TestController
}
