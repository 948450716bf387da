import root, { type Test } from 'tap'
import { kinds, toCrd } from '../../../k8s/write-crds.ts'
import type { JsonObject } from '../../../src/formats/fields.ts'
import {
  type ClusterAccess,
  createClient,
  type KubeClient,
} from '../../../src/kubernetes/client.ts'
import { collections, othersCollections } from '../../../src/models/sources/collections.ts'
import { type ApiKind, type ApiServer, adminToken, startApiServer } from './api-server.ts'
import { installCrds, noCrdServer, startCrdServer } from './crd-server.ts'

/** A cluster in a test, with an administrator. */
export interface World {
  /** The access of the tested code. */
  readonly access: ClusterAccess
  /** The administrator's client, which the switches do not affect. */
  readonly client: KubeClient
  /** Creates or replaces an object as `kubectl apply` would, and its status if there is one. */
  apply(document: object): Promise<JsonObject>
  remove(document: object): Promise<void>
  /** The switches of the fake API server; undefined for a real one. */
  readonly faults: ApiServer | undefined
}

const apiKinds: readonly ApiKind[] = [
  ...Object.values(collections)
    .flat()
    .map(({ apiGroup, kind, plural }) => ({ group: apiGroup, version: 'v1alpha1', plural, kind })),
  ...kinds.slice(4).map(({ kind, plural }) => ({
    ...{ group: 'tollgate.dev', version: 'v1alpha1' },
    plural,
    kind,
  })),
  ...othersCollections.flatMap(({ group, versions, kind, plural }) =>
    versions.slice(0, 1).map((version) => ({ group, version, plural, kind })),
  ),
  { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' },
  { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
  { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' },
  { group: '', version: 'v1', plural: 'pods', kind: 'Pod' },
]

/** A version that real API servers serve beside the newer one. */
const older: readonly ApiKind[] = othersCollections.map(({ group, versions, kind, plural }) => ({
  ...{ group, version: versions[1], kind, plural },
}))

/**
 * Runs a test with the fake API server, and with Kubernetes' own custom-resource server if that can
 * run. Each test with the fake one has its own, so that several run at once if a file sets
 * `root.jobs`.
 */
export function inWorlds(title: string, body: (t: Test, world: World) => Promise<void>): void {
  root.test(`${title}, in a double`, { buffered: true }, async (t) => body(t, await startDouble(t)))
  root.test(`${title}, in the custom-resource server`, { skip: noCrdServer }, async (t) => {
    shared ??= startReal()
    const world = toWorld(await shared, undefined)
    t.teardown(() => empty(world))
    await body(t, world)
  })
}

/** One for the tests of a file, each of which leaves it empty. */
let shared: Promise<ClusterAccess> | undefined

async function startReal(): Promise<ClusterAccess> {
  const access = await startCrdServer(root)
  // The next file in this process needs another one.
  root.teardown(() => {
    shared = undefined
  })
  await installCrds(access, [...kinds.map(toCrd), ...originals(), ...others(), leases])
  return access
}

async function empty({ client }: World): Promise<void> {
  for (const { group, version, plural } of apiKinds) {
    if (group === '') continue
    const { items } = await client.send({ path: `/apis/${group}/${version}/${plural}` })
    for (const { metadata } of items as {
      metadata: { name: string; namespace: string; finalizers?: readonly string[] }
    }[]) {
      const all = `/apis/${group}/${version}/namespaces/${metadata.namespace}/${plural}`
      const path = `${all}/${metadata.name}`
      await client.send({ method: 'DELETE', path })
      if (metadata.finalizers === undefined) continue
      const contentType = 'application/merge-patch+json'
      const body = { metadata: { finalizers: null } }
      await client.send({ method: 'PATCH', path, contentType, body })
    }
  }
}

/** Starts only the fake API server. */
export async function startDouble(t: Test): Promise<World & { readonly faults: ApiServer }> {
  const faults = await startApiServer(t, [...apiKinds, ...older])
  return { ...toWorld(faults.access, faults), faults }
}

function toWorld(access: ClusterAccess, faults: ApiServer | undefined): World {
  const isDouble = faults !== undefined
  const admin = isDouble ? { ...access, token: adminToken } : access
  const client = createClient(admin, { timeoutMs: 20_000 })
  const world: World = {
    access,
    client,
    faults,
    async apply(document) {
      const { status: written, ...body } = placed(document)
      const path = pathOf(body)
      const finish = async (made: JsonObject): Promise<JsonObject> =>
        written === undefined
          ? made
          : await client.send({
              method: 'PUT',
              path: `${path}/${body.metadata.name}/status`,
              body: { ...made, status: written },
            })
      try {
        const { metadata } = await client.send({ path: `${path}/${body.metadata.name}` })
        const { resourceVersion } = metadata as { resourceVersion: string }
        const fresh = { ...body, metadata: { ...body.metadata, resourceVersion } }
        return await finish(
          await client.send({
            method: 'PUT',
            path: `${path}/${body.metadata.name}`,
            body: fresh,
          }),
        )
      } catch (error) {
        const { status } = error as { status?: number }
        // Another client has written in between, perhaps a status.
        if (status === 409) return await world.apply(document)
        if (status !== 404) throw error
        return await finish(await client.send({ method: 'POST', path, body }))
      }
    },
    async remove(document) {
      const body = placed(document)
      await client.send({ method: 'DELETE', path: `${pathOf(body)}/${body.metadata.name}` })
    },
  }
  return world
}

interface Placed {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly status?: unknown
  readonly [field: string]: unknown
}

/** In the namespace that applies to a document without one. */
function placed(document: object): Placed {
  const { metadata, ...rest } = document as Placed
  return {
    ...rest,
    metadata: { ...metadata, namespace: metadata.namespace ?? 'models-as-a-service' },
  }
}

function pathOf({ apiVersion, kind, metadata: { namespace } }: Placed): string {
  const found = apiKinds.find((each) => each.kind === kind && apiVersion.startsWith(each.group))
  if (found === undefined) throw new Error(`no such kind: ${apiVersion} ${kind}`)
  const start = found.group === '' ? '/api' : '/apis'
  return `${start}/${apiVersion}/namespaces/${namespace}/${found.plural}`
}

const unapproved = { 'api-approved.kubernetes.io': 'unapproved, for a test' }

/** Built into a complete cluster; here a definition. */
const leases = looseCrd('coordination.k8s.io', 'v1', 'Lease', 'leases', unapproved)

function others(): readonly object[] {
  return othersCollections.map(({ group, versions: [version], kind, plural }) =>
    looseCrd(group, version, kind, plural, unapproved),
  )
}

/**
 * The original's definitions: without a schema except for the fields of their statuses (contract,
 * 7.2).
 */
function originals(): readonly object[] {
  return collections['maas.opendatahub.io'].map(({ apiGroup, kind, plural, readAs }) =>
    looseCrd(apiGroup, 'v1alpha1', kind, plural, {}, originalStatuses[readAs]),
  )
}

const string = { type: 'string' }
const fields = (names: string) => Object.fromEntries(names.split(' ').map((name) => [name, string]))
const listOf = (names: string, more: object = {}) => ({
  type: 'array',
  items: { type: 'object', properties: { ...fields(names), ...more } },
})
const statusOf = (phases: string, more: object = {}) => ({
  type: 'object',
  properties: {
    phase: { ...string, enum: phases.split(' ') },
    conditions: listOf('type status reason message lastTransitionTime', {
      observedGeneration: { type: 'integer' },
    }),
    ...more,
  },
})
const phases = 'Pending Active Degraded Failed'
const ready = { ready: { type: 'boolean' } }
const originalStatuses: Readonly<Record<string, object>> = {
  ModelRef: statusOf('Pending Ready Unhealthy Failed', {
    ...fields('endpoint httpRouteName httpRouteNamespace'),
    ...fields('httpRouteGatewayName httpRouteGatewayNamespace'),
    httpRouteHostnames: { type: 'array', items: string },
  }),
  AccessPolicy: statusOf(phases, {
    authPolicies: listOf('name namespace reason message model modelNamespace', ready),
  }),
  Subscription: statusOf(phases, {
    modelRefStatuses: listOf('name namespace reason message', ready),
    tokenRateLimitStatuses: listOf('name namespace reason message model', ready),
  }),
  Tenant: statusOf(phases),
}

function looseCrd(
  group: string,
  version: string,
  kind: string,
  plural: string,
  annotations: object = {},
  status?: object,
): object {
  const loose = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const schema = status ? { type: 'object', properties: { spec: loose, status } } : loose
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, annotations },
    spec: {
      group,
      names: { kind, plural, listKind: `${kind}List`, singular: kind.toLowerCase() },
      scope: 'Namespaced',
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  }
}
