import type { PodIdentity } from '../../../src/kubernetes/ended-pods.ts'
import type { World } from './world.ts'

const namespace = 'tollgate'

/** Creates a Pod; returns what the downward API would give it. */
export async function makePod(world: World, name: string): Promise<PodIdentity> {
  const { metadata } = await world.apply(podNamed(name))
  await setPhase(world, name, 'Running')
  return { name, uid: (metadata as { uid: string }).uid }
}

export async function setPhase({ client }: World, name: string, phase: string): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`
  const pod = await client.send({ path })
  await client.send({ method: 'PUT', path: `${path}/status`, body: { ...pod, status: { phase } } })
}

export async function removePod(world: World, name: string): Promise<void> {
  await world.remove(podNamed(name))
}

function podNamed(name: string) {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace } }
}
