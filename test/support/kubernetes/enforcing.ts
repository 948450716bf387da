import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { startClusterController } from '../../../src/cluster/controller/cluster-controller.ts'
import { loadConfig } from '../../../src/settings/config.ts'
import { createMigratedDatabase } from '../database.ts'
import { modelRef } from '../documents.ts'
import { freePorts } from '../free-ports.ts'
import { poll } from '../poll.ts'
import { type Replicas, startReplicas } from '../replicas.ts'
import type { LoadRequest } from '../steady-load.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { lasting } from '../window-ends.ts'
import { controllerDatabase } from './controller-database.ts'
import { startDouble, type World } from './world.ts'

export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

/** Two processes of the service behind an Envoy, and a controller, in one cluster. */
export interface Enforcing extends Replicas {
  readonly world: World
  /** The controller's connection to the database. */
  readonly proxy: TcpProxy
  /** A condition of an object, once it refers to the current generation. */
  condition(
    plural: string,
    name: string,
    type: string,
    namespace?: string,
  ): Promise<Condition | undefined>
  /** `Enforced` of a model's policy. */
  enforced(model: string, kind?: 'auth' | 'trlp'): Promise<Condition | undefined>
  /** Waits until `Enforced` is True. */
  isEnforced(model: string, kind?: 'auth' | 'trlp'): Promise<unknown>
  /** Creates a key of Ann for a Subscription of the group `team`; returns '' if it is refused. */
  mint(subscription: string): Promise<string>
  chatOf(key: string, model: string): LoadRequest
  chat(key: string, model: string): Promise<number>
}

interface Shown {
  readonly metadata: { readonly generation: number }
  readonly status?: {
    readonly observedGeneration: number
    readonly conditions: readonly Condition[]
  }
}

/** Starts everything, with many models that no test uses; `env` is for the controller. */
export async function startEnforcing(
  t: Test,
  crowd: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Enforcing> {
  const world = await startDouble(t)
  const backendUrl = 'http://127.0.0.1:1'
  for (let i = 0; i < crowd; i += 1) await world.apply(modelRef(`crowd-${i}`, { backendUrl }))
  const kubeconfig = join(temporaryFolder(t), 'config')
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: world.access.server } }],
      users: [{ name: 'u', user: {} }],
    }),
  )
  const cluster = {
    RESOURCES: 'kubernetes',
    KUBECONFIG: kubeconfig,
    MODEL_ADDRESSES_ALLOWED: 'loopback',
  }
  const database = await createMigratedDatabase(t)
  const proxy = await startTcpProxy(t, Number(new URL(database).port))
  const [adminPort = 0] = await freePorts(1)
  const replicas = await startReplicas(t, {
    count: 2,
    database,
    resources: () => [],
    tokens: [`token-ann,${lasting('ann')},1,team`],
    envoyAdminPort: adminPort,
    env: { ...cluster, ENVOY_ADMIN_ADDRESS: `127.0.0.1:${adminPort}` },
  })
  const controller = await startClusterController({
    config: loadConfig({ ...cluster, ...env }),
    database: controllerDatabase(t, proxy.through(database)),
    log: pino({ level: 'silent' }),
    clock: Date.now,
    leaseMs: [5_000, 1_000],
  })
  t.teardown(() => controller.stop())

  const { url } = replicas
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const condition: Enforcing['condition'] = async (plural, name, type, namespace = 'llm') => {
    const path = `/apis/tollgate.dev/v1alpha1/namespaces/${namespace}/${plural}/${name}`
    const found = (await world.client.send({ path }).catch(() => undefined)) as Shown | undefined
    if (found?.status?.observedGeneration !== found?.metadata.generation) return undefined
    return found?.status?.conditions.find((each) => each.type === type)
  }
  const enforced: Enforcing['enforced'] = (model, kind = 'auth') => {
    const plural = kind === 'auth' ? 'modelauthpolicies' : 'tokenratelimitpolicies'
    return condition(plural, `maas-${kind}-${model}`, 'Enforced')
  }
  const chatOf: Enforcing['chatOf'] = (key, model) => ({
    url: `${url}/llm/${model}/v1/chat/completions`,
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sim', messages: [], sim: { totalTokens: 10 } }),
  })
  return {
    ...replicas,
    ...{ world, proxy, condition, enforced, chatOf },
    isEnforced: (model, kind = 'auth') =>
      poll(
        async () => (await enforced(model, kind))?.status === 'True',
        `${model} ${kind} is enforced`,
        60_000,
      ),
    async mint(subscription) {
      const answer = await fetch(`${url}/v1/api-keys`, {
        ...{ method: 'POST', headers },
        body: JSON.stringify({ name: subscription, subscription }),
      })
      return ((await answer.json()) as { key?: string }).key ?? ''
    },
    async chat(key, model) {
      const { url: to, ...init } = chatOf(key, model)
      const answer = await fetch(to, { method: 'POST', ...init })
      await answer.text()
      return answer.status
    },
  }
}
