/** What soaks of a cluster install there, and how a user sees it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { render } from '../../../k8s/render.ts'
import { poll } from '../poll.ts'
import {
  gatewayPods,
  imageHere,
  kubectl,
  noCluster,
  noOwnNodes,
  ownOverlay,
  rolledOut,
} from './cluster.ts'
import { watchGateway } from './gateway-watch.ts'
import { folderOf } from './manifests.ts'
import { type Nodes, startNodes } from './nodes.ts'
import { ask, startLoad, startUser, url } from './user-pod.ts'

const { CLUSTER_DATABASE_URL = '', CLUSTER_REDIS_URL = '' } = process.env

/** Why there are no stores for the cluster, for tests to skip. */
export const noStores =
  noCluster ||
  (noOwnNodes !== false &&
    (!CLUSTER_DATABASE_URL || !CLUSTER_REDIS_URL) &&
    'no CLUSTER_DATABASE_URL, _REDIS_URL')

export const namespaced = ['-n', 'tollgate']

/** The trial's model, policy and subscription. */
export const resources = join(folderOf('overlays/trial'), 'resources.yaml')

let started: Promise<Nodes> | undefined

/** The nodes on this machine, until the file ends. */
export function ownNodes(): Promise<Nodes> {
  if (started === undefined) {
    started = startNodes(root as unknown as Test)
    // The next file in this process needs others.
    root.teardown(() => {
      started = undefined
    })
  }
  return started
}

/** Prepares for an installation; removes all leftovers of an earlier one. */
export async function prepare(): Promise<void> {
  if (!noOwnNodes) await ownNodes()
  // A soak that was killed leaves its load, which continues for twenty minutes.
  await kubectl(['-n', 'llm', 'delete', 'pod/load', '--ignore-not-found', '--grace-period=0'])
  for (const name of ['trial', 'production']) {
    await kubectl(['delete', '--ignore-not-found', '-k', folderOf(`overlays/${name}`)])
  }
  await kubectl(['apply', '-k', folderOf('namespaces')])
  const restricted = 'pod-security.kubernetes.io/enforce=restricted'
  await kubectl(['label', '--overwrite', 'namespace/tollgate', restricted])
  await kubectl(['apply', '-k', folderOf('crds')])
  const definitions = render(folderOf('crds')).map(({ metadata }) => `crd/${metadata.name}`)
  await kubectl(['wait', '--for=condition=Established', '--timeout=60s', ...definitions])
}

/** Prepares the cluster, with the Secret of the stores and the model server of the trial. */
export async function prepareStores(): Promise<void> {
  await prepare()
  const stores = noOwnNodes === false ? await ownNodes() : undefined
  const literals = {
    'database-url': stores?.databaseUrl ?? CLUSTER_DATABASE_URL,
    'redis-url': stores?.redisUrl ?? CLUSTER_REDIS_URL,
  }
  await kubectl([...namespaced, 'delete', 'secret/tollgate-stores', '--ignore-not-found'])
  await kubectl([
    ...[...namespaced, 'create', 'secret', 'generic', 'tollgate-stores'],
    ...Object.entries(literals).map(([name, value]) => `--from-literal=${name}=${value}`),
  ])
  await kubectl(['apply', '-f', join(folderOf('overlays/trial'), 'sample-model.yaml')])
  const setImage = ['set', 'image', 'deployment/sample-model', `sample-model=${imageHere}`]
  await kubectl([...namespaced, ...setImage])
}

/** The autoscaler's, in k8s/overlays/production. */
const leastReplicas = 3

/** Installs production, or applies it again with these settings. */
export async function applyProduction(t: Test, settings: Readonly<Record<string, string>> = {}) {
  const overlay = ownOverlay(t, 'production', { GATEWAY_URL: url, ...settings })
  await kubectl(['apply', '-k', overlay])
  await rolledOut('tollgate-gateway')
  // The Deployment begins with one pod; a fault in a pod without requests shows nothing.
  const areAllReady = async () => {
    const pods = await gatewayPods()
    return pods.length >= leastReplicas && pods.every(({ isReady }) => isReady)
  }
  await poll(areAllReady, `${leastReplicas} pods are ready`, 180_000)
}

/** Applies the trial's resources with this limit per day, which hardly ends meanwhile, and creates a key as a user would. */
export async function makeKey(t: Test, limit = 100_000_000): Promise<string> {
  const written = readFileSync(resources, 'utf8').replace(
    /limit: \d+, window: 1h/,
    `limit: ${limit}, window: 24h`,
  )
  await kubectl(['apply', '-f', '-'], written)
  await rolledOut('tollgate-gateway')
  const { status, key } = await startUser()
  t.equal(status, 201)
  await poll(async () => (await ask(key)) === 200, 'the model answers', 60_000)
  return key
}

/** The results of 40 requests a second while `act` changes something, and the reasons of those other than 200. */
export async function loadDuring(
  t: Test,
  { key, what }: { key: string; what: string },
  act: () => Promise<unknown>,
) {
  const watch = watchGateway()
  try {
    const load = await startLoad(key)
    await act()
    // Idle keep-alive connections notice it only with their next request.
    await delay(5_000)
    const { failures, ...result } = await load.stop()
    t.comment(`${what}: ${JSON.stringify(result)}`)
    for (const line of watch.explain(failures)) t.comment(line)
    return result
  } finally {
    watch.stop()
  }
}

export async function waitForPhase(kind: string, name: string, namespace: string, phase: string) {
  const wish = `--for=jsonpath={.status.phase}=${phase}`
  const object = `${kind}.tollgate.dev/${name}`
  await kubectl(['-n', namespace, 'wait', wish, '--timeout=120s', object])
}

/** What `tollgate doctor` says in a pod of the gateway. */
export function askDoctor(...args: readonly string[]): Promise<string> {
  const command = `tollgate doctor ${args.join(' ')} || true`
  const there = ['exec', 'deployment/tollgate-gateway', '-c', 'tollgate', '--', 'sh', '-c', command]
  return kubectl([...namespaced, ...there])
}
