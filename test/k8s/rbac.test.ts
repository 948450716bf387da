import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { startClusterController } from '../../src/cluster/controller/cluster-controller.ts'
import { createClient } from '../../src/kubernetes/client.ts'
import { createEndedPods } from '../../src/kubernetes/ended-pods.ts'
import { createClusterSource } from '../../src/models/sources/cluster-source.ts'
import { loadConfig } from '../../src/settings/config.ts'
import { accessPolicy, modelRef, original, subscription } from '../support/documents.ts'
import { startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
}

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: readonly Rule[]
  readonly roleRef?: { readonly kind: string; readonly name: string }
  readonly subjects?: readonly { readonly name: string }[]
}

function manifestsOf(folder: string): readonly Manifest[] {
  const text = readFileSync(new URL(`../../k8s/${folder}/rbac.yaml`, import.meta.url), 'utf8')
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest)
}

const base = manifestsOf('base')
const takeOver = manifestsOf('components/take-over')

/** One permission: `verb group/resource name in namespace`, `*` for any. */
interface Grant {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly name: string
  readonly namespace: string
}

function grantsOf(account: string, manifests = base): readonly Grant[] {
  const bindings = manifests.filter(({ subjects }) =>
    subjects?.some(({ name }) => name === account),
  )
  return bindings.flatMap(({ roleRef, metadata: { namespace = '*' } }) =>
    (
      manifests.find((each) => each.kind === roleRef?.kind && each.metadata.name === roleRef.name)
        ?.rules ?? []
    ).flatMap(({ apiGroups, resources, verbs, resourceNames = ['*'] }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          verbs.flatMap((verb) =>
            resourceNames.map((name) => ({ verb, group, resource, name, namespace })),
          ),
        ),
      ),
    ),
  )
}

const verbs: Readonly<Record<string, string>> = {
  ...{ POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' },
}

/**
 * The permissions that the API server requires for a request. Applying an object that may be
 * missing requires `create`.
 */
function neededBy(request: string): readonly Grant[] {
  const [method = '', target = ''] = request.split(' ')
  const url = new URL(target, 'http://localhost')
  const [, group = '', namespace = '*', resource = '', name, status = ''] =
    /^\/(?:apis\/([^/]+)|api)\/[^/]+(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?(\/status)?$/.exec(
      url.pathname,
    ) ?? []
  const selected = url.searchParams.get('fieldSelector')?.replace('metadata.name=', '')
  const read = url.searchParams.has('watch') ? 'watch' : name === undefined ? 'list' : 'get'
  const verb = verbs[method] ?? read
  const place = { group, namespace, resource: resource + status, name: name ?? selected ?? '*' }
  const isApply = verb === 'patch' && url.searchParams.has('force') && status === ''
  return [{ verb, ...place }, ...(isApply ? [{ verb: 'create', ...place, name: '*' }] : [])]
}

function covers(grant: Grant, needed: Grant): boolean {
  const fits = (given: string, asked: string) => given === '*' || given === asked
  return (
    grant.verb === needed.verb &&
    grant.group === needed.group &&
    grant.resource === needed.resource &&
    fits(grant.name, needed.name) &&
    fits(grant.namespace, needed.namespace)
  )
}

/** Checks that the requests need only granted permissions, and that those in `used` were needed. */
function compare(
  t: Test,
  { faults }: World,
  granted: readonly Grant[],
  used: readonly Grant[] = granted,
): void {
  const needed = (faults?.requests ?? []).flatMap(neededBy)
  for (const each of needed) {
    const isGranted = granted.some((grant) => covers(grant, each))
    t.ok(isGranted, show(each))
  }
  for (const grant of used) {
    const isUsed = needed.some((each) => covers(grant, each))
    t.ok(isUsed, `${show(grant)} is used`)
  }
}

const show = ({ verb, group, resource, name, namespace }: Grant): string =>
  `${verb} ${resource}.${group} ${name} in ${namespace}`

async function fill(world: World): Promise<void> {
  await world.apply(modelRef('small'))
  await world.apply(accessPolicy('open', ['llm/small'], { groups: ['team-a'] }))
  await world.apply(subscription('a', { groups: ['team-a'] }, { 'llm/small': [[1, '1m']] }))
  const apiVersion = 'tollgate.dev/v1alpha1'
  await world.apply({ apiVersion, kind: 'Tenant', metadata: { name: 'default-tenant' }, spec: {} })
}

test('the service has exactly the permissions that it needs', async (t) => {
  const world = await startDouble(t)
  await fill(world)
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const source = createClusterSource({
    client: createClient(world.access),
    groups: ['tollgate.dev', 'maas.opendatahub.io'],
    onProblem: (collection, problem) => t.fail(`${collection}: ${problem}`),
  })
  await source.next(closing.signal)
  const pods = createEndedPods({
    client: createClient(world.access),
    namespace: 'tollgate',
    onEnded() {},
    onProblem: (problem) => t.fail(`pods: ${problem}`),
  })
  t.teardown(() => pods.stop())
  pods.check([{ name: 'silent', uid: '1' }])
  await poll(() => world.faults.watches === 18, 'all collections are watched')
  const grants = grantsOf('tollgate-gateway')
  const isReview = ({ resource }: Grant): boolean => resource.endsWith('reviews')
  compare(
    t,
    world,
    grants,
    grants.filter((grant) => !isReview(grant)),
  )
})

/**
 * Starts a controller on a cluster, with these settings in addition; stops it at the end of the
 * test.
 */
async function startIn(t: Test, world: World, env: Readonly<Record<string, string>> = {}) {
  const kubeconfig = join(temporaryFolder(t), 'config')
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: world.access.server } }],
      users: [{ name: 'u', user: {} }],
    }),
  )
  const controller = await startClusterController({
    config: loadConfig({
      RESOURCES: 'kubernetes',
      KUBECONFIG: kubeconfig,
      LEASE_NAME: 'tollgate/tollgate-controller',
      ...env,
    }),
    log: pino({ level: 'silent' }),
    clock: Date.now,
    leaseMs: [1_500, 500],
  })
  t.teardown(() => controller.stop())
  return controller
}

test('the controller has exactly the permissions that it needs', async (t) => {
  const world = await startDouble(t)
  await fill(world)
  const controller = await startIn(t, world)
  await poll(() => controller.written === 8, 'each resource and each policy has its status')
  await world.remove(accessPolicy('open', ['llm/small'], { groups: ['team-a'] }))
  await world.remove(subscription('a', { groups: ['team-a'] }, { 'llm/small': [[1, '1m']] }))
  await poll(
    () => world.faults.requests.filter((each) => each.startsWith('DELETE')).length === 2,
    'the policies are deleted',
  )
  await poll(
    () => world.faults.requests.some((each) => each.startsWith('PUT')),
    'the Lease is renewed',
  )
  await poll(() => world.faults.watches === 19, 'all collections are watched')
  await controller.stop()
  compare(t, world, grantsOf('tollgate-controller'))
})

test('the controller has more permissions where the original is installed', async (t) => {
  const world = await startDouble(t)
  const originals = [
    modelRef('small'),
    accessPolicy('open', ['llm/small'], { groups: ['team-a'] }),
    subscription('a', { groups: ['team-a'] }, { 'llm/small': [[1, '1m']] }),
    { kind: 'Tenant', metadata: { name: 'default-tenant' }, spec: {} },
  ].map((each) => original(each, ['maas.opendatahub.io/cleanup']))
  for (const each of originals) await world.apply(each)
  const controller = await startIn(t, world, { STATUS_GROUPS: 'tollgate.dev,maas.opendatahub.io' })
  await poll(() => controller.written === 8, 'each resource and each policy has its status')
  for (const each of originals) await world.remove(each)
  const isRemoval = (request: string) =>
    /^PATCH .*maas\./.test(request) && !request.includes('/status')
  const removals = () => world.faults.requests.filter(isRemoval).length
  await poll(() => removals() >= originals.length, 'the finalizers are removed')
  await controller.stop()
  const grants = grantsOf('tollgate-controller', takeOver)
  compare(t, world, [...grantsOf('tollgate-controller'), ...grants], grants)
})

test('no rule has a wildcard or grants the Secrets of the cluster', async (t) => {
  for (const { rules = [] } of [...base, ...takeOver]) {
    t.notMatch(JSON.stringify(rules), '*')
    t.notMatch(JSON.stringify(rules), 'secrets')
  }
})
