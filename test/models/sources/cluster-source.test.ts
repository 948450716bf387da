import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { stringify } from 'yaml'
import { createClient } from '../../../src/kubernetes/client.ts'
import type { Snapshot } from '../../../src/models/rules/snapshot.ts'
import {
  type ClusterSource,
  createClusterSource,
  stripConfigMap,
} from '../../../src/models/sources/cluster-source.ts'
import { parseObjectResource } from '../../../src/models/sources/documents.ts'
import { loadSnapshot, type Pipeline, startPipeline } from '../../../src/models/sources/pipeline.ts'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { inWorlds, startDouble, type World } from '../../support/kubernetes/world.ts'
import { poll } from '../../support/poll.ts'
import { gateway, httpRoute, inferenceService, toPool, verdict } from '../../support/routes.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const model = modelRef('small')
const policy = accessPolicy('open', ['llm/small'], { groups: ['team-a'] })
const paid = subscription('team-a', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] })
const original = { apiVersion: 'maas.opendatahub.io/v1alpha1' }
const newer = { apiVersion: 'inference.opendatahub.io/v1alpha1' }

interface Followed {
  readonly source: ClusterSource
  readonly controller: Pipeline
  readonly snapshot: () => Snapshot
  readonly told: string[]
  readonly published: () => number
}

/** A controller that follows the cluster. */
async function follow(t: Test, world: World): Promise<Followed> {
  const told: string[] = []
  const source = createClusterSource({
    client: createClient(world.access),
    groups: ['maas.opendatahub.io', 'tollgate.dev'],
    onProblem: (collection, problem) => told.push(`${collection}: ${problem ?? 'back'}`),
    absentMs: 200,
  })
  let latest: Snapshot | undefined
  let published = 0
  const controller = await startPipeline({
    source,
    async publish(fresh) {
      latest = fresh
      await new Promise(setImmediate)
      published += 1
    },
    report() {},
    onFailure: (error) => t.fail('the change cannot be applied', { error }),
  })
  t.teardown(() => controller.close())
  return {
    source,
    controller,
    told,
    snapshot: () => latest as Snapshot,
    published: () => published,
  }
}

inWorlds('a cluster gives the same snapshot as a folder', async (t, world) => {
  const documents = [
    model,
    modelRef('large', { modelIds: ['big'], timeouts: { connect: '1s' }, retries: 0 }),
    policy,
    paid,
    subscription('broken', { users: ['ada'] }, { 'llm/absent': [[5, '1h']] }, { priority: 7 }),
    {
      ...original,
      kind: 'MaaSModelRef',
      metadata: { name: 'old', namespace: 'llm' },
      spec: model.spec,
    },
    {
      ...{ ...original, kind: 'ExternalModel' },
      metadata: { name: 'gpt', namespace: 'llm' },
      spec: { provider: 'openai', endpoint: 'api.example.com', credentialRef: { name: 'key' } },
    },
    {
      ...{ ...newer, kind: 'ExternalModel' },
      metadata: { name: 'claude', namespace: 'llm' },
      spec: {
        externalProviderRefs: [{ ref: { name: 'p' }, targetModel: 'large', apiFormat: 'messages' }],
      },
    },
    {
      ...{ ...newer, kind: 'ExternalProvider' },
      metadata: { name: 'p', namespace: 'llm' },
      spec: {
        provider: 'anthropic',
        endpoint: 'p.example.com',
        auth: { type: 'simple', secretRef: { name: 'key' } },
      },
    },
    {
      ...{ ...original, kind: 'AITenant' },
      metadata: { name: 'models-as-a-service', namespace: 'ai-tenants' },
      spec: { oidc: { issuerUrl: 'https://idp.example', clientId: 'models' } },
    },
    {
      apiVersion: 'tollgate.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'default-tenant' },
      spec: { apiKeys: { maxExpirationDays: 7 } },
    },
    modelRef('routed', { backendUrl: undefined }),
    modelRef('pooled', { backendUrl: undefined }),
    modelRef('served', { backendUrl: undefined }),
    modelRef('nowhere', { backendUrl: undefined }),
    httpRoute({ service: 'routed', status: verdict('True') }),
    httpRoute({
      service: 'pooled',
      spec: { parentRefs: [{ name: 'models', namespace: 'gateways' }], rules: [toPool('pooled')] },
    }),
    { ...httpRoute({ name: 'of-others' }), metadata: { name: 'of-others', namespace: 'llm' } },
    gateway(),
    inferenceService({ url: 'https://served.example.com/llm/served' }, 'served'),
  ]
  for (const document of documents) await world.apply(document)
  const { snapshot, controller } = await follow(t, world)

  const folder = temporaryFolder(t)
  for (const [index, document] of documents.entries()) {
    writeFileSync(join(folder, `${index}.yaml`), stringify(document))
  }
  const { snapshot: fromFolder } = await loadSnapshot(folder)
  t.strictSame(comparable(snapshot()), comparable(fromFolder))
  t.equal(snapshot().models.get('llm/claude')?.resource.backendUrl, 'https://p.example.com')
  t.match(snapshot().tenant, { maxExpirationDays: 7, externalOidc: { clientId: 'models' } })
  t.match(
    ['routed', 'pooled', 'served', 'nowhere'].map(
      (name) => snapshot().models.get(`llm/${name}`)?.resource.backendUrl,
    ),
    [/^http:\/\/routed\.llm\.svc/, /^http:\/\/10\.96\.0\.7/, /^https:\/\/served/, undefined],
  )
  t.match(controller.problems(), [
    /^subscriptions\.tollgate\.dev models-as-a-service\/broken: warning: .* names the model llm\/absent/,
  ])
})

/** The snapshot without creation times, which only a cluster knows. */
function comparable(snapshot: Snapshot): unknown {
  const plain = (value: unknown): unknown => {
    if (value instanceof Map) return Object.fromEntries([...value].map(([k, v]) => [k, plain(v)]))
    if (value instanceof Set) return [...value].sort()
    if (Array.isArray(value)) return value.map(plain)
    if (typeof value !== 'object' || value === null) return value
    const fields = Object.entries(value).filter(([name]) => name !== 'createdAt')
    return Object.fromEntries(fields.map(([name, inside]) => [name, plain(inside)]))
  }
  return plain(snapshot)
}

inWorlds('a changed route affects only its model', async (t, world) => {
  const routed = (name: string) => modelRef(name, { backendUrl: undefined })
  for (const name of ['a', 'b']) await world.apply(routed(name))
  for (const service of ['a', 'b']) await world.apply(httpRoute({ service }))
  await world.apply(gateway())
  const { snapshot, published, controller } = await follow(t, world)
  const url = (name: string) => snapshot().models.get(`llm/${name}`)?.resource.backendUrl
  t.match(url('a'), /^http:\/\/a\.llm\.svc/)
  const { resource: untouched } = snapshot().models.get('llm/b') ?? {}
  const pool = { parentRefs: [{ name: 'models', namespace: 'gateways' }], rules: [toPool('a')] }
  await world.apply(httpRoute({ service: 'a', spec: pool }))
  await poll(() => url('a') === 'http://10.96.0.7:80/llm/a', 'the address of its Gateway')
  await world.apply(gateway(undefined, ['10.96.0.8']))
  await poll(() => url('a') === 'http://10.96.0.8:80/llm/a', 'the new address of its Gateway')
  await world.apply(httpRoute({ service: 'a', spec: pool, status: verdict('False', 'no') }))
  await poll(() => url('a') === undefined, 'the Gateway no longer accepts the route')
  const count = published()
  const { status } = verdict('True') as { status?: object }
  await world.apply({ ...httpRoute({ service: 'b' }), status: { ...status, other: 'field' } })
  await world.remove(httpRoute({ service: 'a' }))
  await world.apply(inferenceService({ addresses: [{ url: 'https://a.example.com' }] }, 'a'))
  await poll(() => url('a') === 'https://a.example.com', 'the address in the status of its service')
  t.ok(published() - count <= 2, 'an unchanged status publishes nothing')
  t.equal(snapshot().models.get('llm/b')?.resource, untouched)
  t.strictSame(controller.problems(), [])
})

test('reads an older version of a kind if it is the only one', async (t) => {
  const world = await startDouble(t)
  const newest = '/apis/gateway.networking.k8s.io/v1/httproutes'
  world.faults.refuses = (_, url) => (url.startsWith(newest) ? 404 : 0)
  const old = { apiVersion: 'gateway.networking.k8s.io/v1beta1' }
  await world.apply(modelRef('small', { backendUrl: undefined }))
  await world.apply({ ...httpRoute(), ...old })
  const { snapshot, source } = await follow(t, world)
  t.equal(snapshot().models.get('llm/small')?.phase, 'Ready')
  await world.remove({ ...httpRoute(), ...old })
  await poll(
    () => snapshot().models.get('llm/small')?.phase === 'Pending',
    'the older version is watched',
  )
  t.notOk(source.isUnavailable)
})

test('reads another version of a kind if the first cannot be converted to', async (t) => {
  const world = await startDouble(t)
  const newest = '/apis/serving.kserve.io/v1alpha1/'
  world.faults.refuses = (_, url) => (url.startsWith(newest) ? 500 : 0)
  await world.apply(modelRef('small', { backendUrl: undefined }))
  const service = inferenceService({ url: 'https://a.example.com' }, 'small')
  await world.apply({ ...service, apiVersion: 'serving.kserve.io/v1alpha2' })
  const { snapshot, source } = await follow(t, world)
  t.equal(snapshot().models.get('llm/small')?.phase, 'Ready')
  t.notOk(source.isUnavailable)
})

test('waits for the first version of a kind that fails, if there is no other', async (t) => {
  const world = await startDouble(t)
  const path = '/apis/serving.kserve.io/'
  world.faults.refuses = (_, url) =>
    url.startsWith(`${path}v1alpha1/`) ? 500 : url.startsWith(path) ? 404 : 0
  await world.apply(modelRef('small', { backendUrl: undefined }))
  await world.apply(inferenceService({ url: 'https://a.example.com' }, 'small'))
  const following = follow(t, world)
  const isEarly = await Promise.race([following.then(() => true), delay(1_000, false)])
  t.notOk(isEarly, 'the kind is not taken as absent')
  world.faults.refuses = undefined
  const { snapshot } = await following
  t.equal(snapshot().models.get('llm/small')?.phase, 'Ready')
})

inWorlds('changes take effect as they arrive', async (t, world) => {
  const { snapshot } = await follow(t, world)
  t.equal(snapshot().models.size, 0, 'a cluster without resources is valid')
  await world.apply(model)
  await world.apply(policy)
  await poll(() => snapshot().models.get('llm/small')?.groups.has('team-a'), 'created')
  const before = snapshot()
  await world.apply(accessPolicy('open', ['llm/small'], { groups: ['team-b'] }))
  await poll(() => snapshot().models.get('llm/small')?.groups.has('team-b'), 'changed')
  t.ok(before.models.get('llm/small')?.groups.has('team-a'), 'the old snapshot is unchanged')
  await world.remove(policy)
  await poll(() => snapshot().models.get('llm/small')?.groups.size === 0, 'deleted')
})

inWorlds('tollgate.dev takes precedence over the original’s group', async (t, world) => {
  const theirs = modelRef('small', { backendUrl: 'http://theirs.example' })
  await world.apply({ ...theirs, ...original, kind: 'MaaSModelRef' })
  const { snapshot, controller } = await follow(t, world)
  const url = () => snapshot().models.get('llm/small')?.resource.backendUrl
  t.equal(url(), 'http://theirs.example')
  await world.apply(model)
  await poll(() => url() === 'http://small.example:8000', 'the object of tollgate.dev')
  await poll(() => controller.problems().length > 0, 'the problem is reported')
  t.match(controller.problems(), [
    /^maasmodelrefs\.maas\.opendatahub\.io llm\/small: error: .*modelrefs\.tollgate\.dev llm\/small too/,
  ])
  await world.remove(model)
  await poll(() => url() === 'http://theirs.example', 'the object of the other group again')
})

test('an invalid object of tollgate.dev takes precedence, too', async (t) => {
  const world = await startDouble(t)
  const theirs = accessPolicy('open', ['llm/small'], { groups: ['everybody'] })
  await world.apply(model)
  await world.apply({ ...theirs, ...original, kind: 'MaaSAuthPolicy' })
  const { snapshot, controller } = await follow(t, world)
  t.match([...snapshot().policies.keys()], ['open'])
  await world.apply({
    ...theirs,
    spec: { ...theirs.spec, subjects: { users: ['ada'], groups: 'a' } },
  })
  await poll(() => snapshot().policies.size === 0, 'neither is in force')
  t.match(controller.problems().toSorted(), [
    /^accesspolicies\.tollgate\.dev .*open: error: AccessPolicy open: spec\.subjects\.groups must be a list/,
    /^maasauthpolicies\.maas\.opendatahub\.io .*open: error: .* is defined as accesspolicies\.tollgate\.dev .*open too, and that one counts/,
  ])
  await world.remove(theirs)
  await poll(() => snapshot().policies.size === 1, 'the object of the other group again')
})

test('an invalid Tenant of tollgate.dev takes precedence over the original’s', async (t) => {
  const world = await startDouble(t)
  const about = (apiVersion: string, maxExpirationDays: unknown) => ({
    ...{ apiVersion, kind: 'Tenant' },
    metadata: { name: 'default-tenant', namespace: 'models-as-a-service' },
    spec: { apiKeys: { maxExpirationDays } },
  })
  const { snapshot } = await follow(t, world)
  await world.apply(about(original.apiVersion, 3650))
  await poll(() => snapshot().tenant?.maxExpirationDays === 3650, 'the original’s alone')
  await world.apply(about('tollgate.dev/v1alpha1', 30))
  await poll(() => snapshot().tenant?.maxExpirationDays === 30, 'that of Tollgate')
  await world.apply(about('tollgate.dev/v1alpha1', 'x'))
  await poll(() => snapshot().tenant?.maxExpirationDays === undefined, 'neither')
})

inWorlds('a hundred edits of one object converge', async (t, world) => {
  await world.apply(model)
  const followed = await follow(t, world)
  for (let i = 0; i < 100; i += 1) await world.apply(modelRef('small', { modelIds: [`id-${i}`] }))
  const ids = () => followed.snapshot().models.get('llm/small')?.resource.modelIds
  await poll(() => ids()?.[0] === 'id-99', 'the last edit')
  await world.apply(modelRef('small', { modelIds: ['end'] }))
  await poll(() => ids()?.[0] === 'end', 'one more edit')
  t.ok(followed.published() <= 102, `${followed.published()} published`)
})

inWorlds('a change of status publishes nothing', async (t, world) => {
  const made = await world.apply(model)
  const { snapshot, published } = await follow(t, world)
  const before = snapshot().models.get('llm/small')?.resource
  const count = published()
  const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/small/status'
  await world.client.send({ method: 'PUT', path, body: { ...made, status: { phase: 'Ready' } } })
  await world.apply(modelRef('other'))
  await poll(() => snapshot().models.has('llm/other'), 'a later change')
  t.equal(snapshot().models.get('llm/small')?.resource, before, 'the same object')
  await poll(() => published() > count, 'the later change is published')
  t.equal(published(), count + 1, 'one snapshot for one change')
})

test('a broken watch loses no change', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const { snapshot, source, told } = await follow(t, world)
  let count = 0
  const change = async (what: string): Promise<void> => {
    count += 1
    const id = `id-${count}`
    await world.apply(modelRef('small', { modelIds: [id] }))
    await poll(() => snapshot().models.get('llm/small')?.resource.modelIds[0] === id, what)
  }
  const { faults } = world
  await change('no error')
  for (const [what, act] of Object.entries({
    cut: () => faults.cut(),
    'half a line': () => faults.cut('{"type":"ADDED","object":{"metada'),
    'a line that is not JSON': () => faults.cut('{"type":\n'),
    'a line without an object': () => faults.cut('{"type":"MODIFIED"}\n'),
    'the end of the watch': () => faults.endWatches(),
    bookmarks: () => faults.bookmark(),
    '410': () => {
      faults.compact()
      faults.cut()
    },
    '410 after a bookmark': () => {
      faults.compact()
      faults.bookmark()
      faults.cut()
    },
  })) {
    act()
    await change(what)
  }
  t.notOk(source.isUnavailable)
  t.strictSame(told, [], 'problems that are solved at once are not reported')
})

test('keeps of a tier mapping only what is read', async (t) => {
  const mapping = (tiers: string) => ({
    metadata: { name: 'tier-to-group-mapping', uid: '1', annotations: { a: 'x'.repeat(200_000) } },
    data: { tiers, other: 'x'.repeat(1_000_000) },
  })
  t.strictSame(stripConfigMap(mapping('[]')), {
    metadata: { name: 'tier-to-group-mapping', uid: '1' },
    data: { tiers: '[]' },
  })
  const long = stripConfigMap(mapping('<'.repeat(1_000_000)))
  t.ok(JSON.stringify(long).length < 40_000)
  const { problems } = parseObjectResource({ apiVersion: 'v1', kind: 'ConfigMap', ...long })
  t.match(problems, [{ message: /data.tiers must have at most 32768 characters/ }])
})

test('reads what an API server that was away was restored to', async (t) => {
  const world = await startDouble(t)
  const { faults } = world
  await world.apply(model)
  for (let i = 0; i < 20; i += 1) await world.apply(modelRef('small', { modelIds: [`id-${i}`] }))
  const { snapshot } = await follow(t, world)
  faults.status = 503
  faults.cut()
  const times = () => faults.refusedAt.get('/apis/tollgate.dev/v1alpha1/modelrefs') ?? []
  await poll(() => times().length > 0, 'the watch is refused')
  faults.goBack(15)
  faults.status = 0
  await world.remove(model)
  await poll(() => snapshot().models.size === 0, 'the deletion is seen')
})

test('lists again after an event that cannot be read', async (t) => {
  const world = await startDouble(t)
  const { faults } = world
  await world.apply(model)
  const { snapshot, source } = await follow(t, world)
  faults.requests.length = 0
  const path = '/apis/tollgate.dev/v1alpha1/modelrefs?'
  const asked = () => faults.requests.filter((each) => each.startsWith(`GET ${path}`))
  faults.cut(`{"type":"MODIFIED","object":"${'x'.repeat(16 * 1_048_576)}"}\n`)
  await poll(() => asked().length > 1, 'it continues', 30_000)
  t.match(asked(), [`GET ${path}limit`, `GET ${path}watch`])
  await world.apply(modelRef('fresh'))
  await poll(() => snapshot().models.has('llm/fresh'), 'a later change')
  t.notOk(source.isUnavailable)
})

test('does not retry in a tight loop if every watch is 410', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const { snapshot } = await follow(t, world)
  const { faults } = world
  faults.refuses = (_, url) => (url.includes('watch=1') ? 410 : 0)
  faults.cut()
  const times = () => faults.refusedAt.get('/apis/tollgate.dev/v1alpha1/modelrefs') ?? []
  await poll(() => times().length > 3, 'it retries')
  const [, second = 0, third = 0] = times()
  t.ok(third - second > 900, 'at most once a second')
  await world.apply(modelRef('fresh'))
  await poll(() => snapshot().models.has('llm/fresh'), 'the list alone shows the change')
})

test('changes are seen although every watch ends at once', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const { snapshot, source } = await follow(t, world)
  const { faults } = world
  const times = () => faults.refusedAt.get('/apis/tollgate.dev/v1alpha1/modelrefs') ?? []
  faults.refuses = (_, url) => (url.includes('watch=1') ? 200 : 0)
  faults.cut()
  await poll(() => times().length > 1 && source.isUnavailable, 'it is reported')
  await world.apply(modelRef('fresh'))
  await poll(() => snapshot().models.has('llm/fresh'), 'a list shows the change')
  const before = times().length
  await delay(2_000)
  t.ok(times().length - before < 5, 'with delays')
  faults.refuses = undefined
  await poll(() => !source.isUnavailable, 'the end is reported')
})

test('does not retry in a tight loop if every watch fails', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const { snapshot, source } = await follow(t, world)
  const { faults } = world
  const event = { type: 'ERROR', object: { kind: 'Status', code: 500, message: 'no conversion' } }
  const path = 'GET /apis/tollgate.dev/v1alpha1/modelrefs?watch'
  const asked = () => faults.requests.filter((each) => each.startsWith(path)).length
  const failing = setInterval(() => faults.cut(`${JSON.stringify(event)}\n`), 5)
  t.teardown(() => clearInterval(failing))
  await poll(() => source.isUnavailable, 'it is reported', 30_000)
  const before = asked()
  await delay(2_000)
  t.ok(asked() - before < 5, `${asked() - before} watches in two seconds`)
  await world.apply(modelRef('fresh'))
  await poll(() => snapshot().models.has('llm/fresh'), 'a list shows the change')
  clearInterval(failing)
  await poll(() => !source.isUnavailable, 'the end is reported', 30_000)
})

test('does not retry in a tight loop if every second page is 410', async (t) => {
  const world = await startDouble(t)
  for (let i = 0; i < 600; i += 1) await world.apply(modelRef(`m${i}`))
  world.faults.refuses = (_, url) => (url.includes('&continue=') ? 410 : 0)
  const following = follow(t, world)
  const times = () => world.faults.refusedAt.get('/apis/tollgate.dev/v1alpha1/modelrefs') ?? []
  await poll(() => times().length > 2, 'it retries')
  const [, second = 0, third = 0] = times()
  t.ok(third - second > 900, 'at most once a second')
  world.faults.refuses = undefined
  t.equal((await following).snapshot().models.size, 600)
})

test('a permission that is missing after an outage is reported, too', async (t) => {
  const world = await startDouble(t)
  world.faults.status = 503
  const told: string[] = []
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const source = createClusterSource({
    client: createClient(world.access),
    groups: ['tollgate.dev'],
    onProblem: (collection, problem) => told.push(`${collection}: ${problem ?? 'back'}`),
  })
  source.next(closing.signal).catch(() => {})
  const about = (text: string) =>
    told.filter((line) => line.startsWith('modelrefs') && line.includes(text))
  await poll(() => about('503').length === 1, 'the API server is away')
  world.faults.status = 403
  await poll(() => about('not granted').length === 1, 'it is back, and refuses', 30_000)
})

test('changes during an outage are seen after it', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  await world.apply(modelRef('gone'))
  const { snapshot } = await follow(t, world)
  const { faults } = world
  const first = snapshot().models.get('llm/small')?.resource
  faults.status = 503
  faults.cut()
  await world.remove(modelRef('gone'))
  await world.remove(model)
  await world.apply(model)
  await world.apply(modelRef('fresh'))
  faults.compact()
  faults.status = 0
  await poll(() => snapshot().models.has('llm/fresh'), 'the created object')
  t.notOk(snapshot().models.has('llm/gone'), 'the deleted object')
  t.not(snapshot().models.get('llm/small')?.resource, first, 'deleted and recreated: a new object')
})

test('keeps the last snapshot without the API server', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const followed = await follow(t, world)
  const { faults } = world
  for (const status of [500, 429, 401]) {
    faults.status = status
    faults.cut()
    await poll(() => followed.source.isUnavailable, `unavailable: ${status}`)
    t.ok(followed.snapshot().models.has('llm/small'))
    t.match(followed.told.join('\n'), `${status}`)
    faults.status = 0
    await poll(() => !followed.source.isUnavailable, `back from ${status}`, 30_000)
    t.ok(followed.snapshot().models.has('llm/small'))
  }
  faults.retryAfterSeconds = 1
  faults.refusedAt.clear()
  faults.status = 429
  faults.cut()
  const path = '/apis/tollgate.dev/v1alpha1/modelrefs'
  const times = () => faults.refusedAt.get(path) ?? []
  await poll(() => times().length > 2, 'it retries')
  for (const [index, time] of times().slice(1).entries()) {
    t.ok(time - (times()[index] as number) > 900, 'at least the second that Retry-After asks for')
  }
})

test('the first snapshot waits for all collections', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  world.faults.status = 503
  const following = follow(t, world)
  let isThere = false
  void following.then(() => {
    isThere = true
  })
  await poll(() => world.faults.requests.length > 20, 'it retries')
  t.notOk(isThere)
  world.faults.status = 0
  t.ok((await following).snapshot().models.has('llm/small'))
})

test('looks again for a missing kind', async (t) => {
  const world = await startDouble(t)
  for (const plural of ['modelrefs', 'maasmodelrefs', 'tenants']) world.faults.forget(plural)
  const { snapshot, source, told } = await follow(t, world)
  t.notOk(source.isUnavailable)
  world.faults.restore('modelrefs')
  await world.apply(model)
  await poll(() => snapshot().models.has('llm/small'), 'its definition was created')
  world.faults.forget('modelrefs')
  await poll(
    () => !snapshot().models.has('llm/small'),
    'its definition and its objects were deleted',
  )
  world.faults.restore('modelrefs')
  await world.apply(model)
  await poll(() => snapshot().models.has('llm/small'), 'its definition was created again')
  t.strictSame(told, [])
})

/** Answers 403 to requests for one of these collections. */
const about =
  (...plurals: readonly string[]) =>
  (_: string, url: string): number =>
    plurals.some((plural) => new RegExp(`/${plural}\\?`).test(url)) ? 403 : 0

test('leaves out optional kinds while they may not be read', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  await world.apply(modelRef('routed', { backendUrl: undefined }))
  await world.apply(httpRoute({ service: 'routed' }))
  await world.apply(gateway())
  const others = ['httproutes', 'gateways', 'llminferenceservices', 'configmaps']
  world.faults.refuses = about(...others)
  const { snapshot, source, told } = await follow(t, world)
  t.equal(snapshot().models.get('llm/small')?.phase, 'Ready')
  t.equal(snapshot().models.get('llm/routed')?.phase, 'Pending')
  t.ok(source.isUnavailable, '/readyz reports it')
  t.equal(told.length, others.length, 'each kind once')
  for (const plural of others) {
    t.ok(
      told.some(
        (line) => line.startsWith(plural) && line.includes('list and watch are not granted'),
      ),
      plural,
    )
  }
  world.faults.refuses = undefined
  const isRouted = () => snapshot().models.get('llm/routed')?.phase === 'Ready'
  await poll(isRouted, 'access is granted', 30_000)
  await poll(() => !source.isUnavailable, 'for all kinds', 30_000)
  world.faults.refuses = about(...others)
  world.faults.cut()
  await poll(() => source.isUnavailable, 'access is revoked', 30_000)
  t.ok(isRouted(), 'keeps what was read last')
})

test('publishes nothing until its own kinds may be read', async (t) => {
  for (const plural of ['modelrefs', 'accesspolicies', 'subscriptions', 'tenants']) {
    const world = await startDouble(t)
    await world.apply(model)
    world.faults.refuses = (method, url) =>
      url.includes('/tollgate.dev/') ? about(plural)(method, url) : 0
    const told: string[] = []
    const source = createClusterSource({
      client: createClient(world.access),
      groups: ['tollgate.dev'],
      onProblem: (collection, problem) => told.push(`${collection}: ${problem ?? 'back'}`),
    })
    const closing = new AbortController()
    t.teardown(() => closing.abort())
    let isThere = false
    const first = source.next(closing.signal).then(() => {
      isThere = true
    })
    first.catch(() => {})
    await poll(() => told.length > 0, `${plural}: the problem is reported`)
    t.match(
      told[0],
      `${plural}.tollgate.dev: nothing is in force before they are: list and watch are not granted`,
    )
    t.notOk(isThere)
    world.faults.refuses = undefined
    await first
    t.ok(isThere)
    closing.abort()
  }
})

test('the newer configuration of the original takes precedence over its Tenant', async (t) => {
  const world = await startDouble(t)
  const about = (kind: string, days: number) => ({
    ...{ apiVersion: 'maas.opendatahub.io/v1alpha1', kind },
    metadata: { name: 'default-tenant', namespace: 'models-as-a-service' },
    spec: { apiKeys: { maxExpirationDays: days } },
  })
  await world.apply(about('Tenant', 7))
  await world.apply(about('MaasTenantConfig', 5))
  const { snapshot, controller } = await follow(t, world)
  t.equal(snapshot().tenant?.maxExpirationDays, 5)
  t.match(controller.problems(), [/tenants.maas.opendatahub.io .*maastenantconfigs/])
})

test('the kinds of the original are required if they are installed', async (t) => {
  const plurals = ['maasmodelrefs', 'maasauthpolicies', 'maassubscriptions', 'externalmodels']
  const world = await startDouble(t)
  await world.apply(model)
  world.faults.refuses = about(...plurals)
  let isThere = false
  const following = follow(t, world)
  void following.then(() => {
    isThere = true
  })
  const asked = () => world.faults.requests.filter((each) => each.endsWith('/v1alpha1')).length
  await poll(() => asked() >= 4 * 2, 'looks up twice whether each kind exists')
  t.notOk(isThere)
  for (const plural of plurals) world.faults.forget(plural)
  t.ok(
    (await following).snapshot().models.has('llm/small'),
    'not required when their definitions are gone',
  )
})

test('an API server that is starting removes nothing', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const { snapshot } = await follow(t, world)
  const asked = world.faults.requests.length
  world.faults.status = 404
  world.faults.cut()
  await poll(() => world.faults.requests.length > asked + 5, 'every request is answered 404')
  world.faults.status = 0
  await world.apply(modelRef('other'))
  await poll(() => snapshot().models.has('llm/other'), 'a new model is read')
  t.ok(snapshot().models.has('llm/small'))
})

test('a 404 from something before the API server removes nothing, and is no missing definition', async (t) => {
  const cases = [
    [true, 404],
    [true, 401],
    [false, 404],
  ] as const
  const check = async ([isThere, status]: (typeof cases)[number]) => {
    const world = await startDouble(t)
    const apiVersion = 'tollgate.dev/v1alpha1'
    await world.apply(model)
    const spec = { apiKeys: { maxExpirationDays: 5 } }
    await world.apply({ apiVersion, kind: 'Tenant', metadata: { name: 'default-tenant' }, spec })
    const { faults } = world
    const before = isThere ? await follow(t, world) : undefined
    const times = () =>
      faults.refusedAt.get(`/apis/${apiVersion}/namespaces/models-as-a-service/tenants`) ?? []
    faults.refuses = (_, url) =>
      /tenants[?]/.test(url) ? 404 : /[/]apis$|v1alpha1$/.test(url) ? status : 0
    const following = before ?? follow(t, world)
    faults.cut()
    await poll(() => times().length > 4, 'it retries', 30_000)
    const waiting = await Promise.race([following, delay(50)])
    if (isThere) t.equal(before?.snapshot().tenant?.maxExpirationDays, 5, 'the Tenant stays')
    else t.equal(waiting, undefined, 'nothing is in force without it')
    faults.refuses = undefined
    const { snapshot, source } = await following
    t.equal(snapshot().tenant?.maxExpirationDays, 5)
    await poll(() => !source.isUnavailable, 'the end is reported')
  }
  // They wait for their retries.
  await Promise.all(cases.map(check))
})

test('reads a large cluster in pages', async (t) => {
  const world = await startDouble(t)
  for (let i = 0; i < 1_200; i += 1) await world.apply(modelRef(`m${i}`))
  const { snapshot } = await follow(t, world)
  t.equal(snapshot().models.size, 1_200)
  t.equal(world.faults.requests.filter((each) => each.includes('/modelrefs?limit')).length, 3)
})

test('reads objects that are too large for a page of the usual length', async (t) => {
  const world = await startDouble(t)
  for (let i = 0; i < 40; i += 1) {
    const { metadata, ...rest } = modelRef(`m${i}`)
    const annotations = { 'example.com/large': 'x'.repeat(10_000) }
    await world.apply({ ...rest, metadata: { ...metadata, annotations } })
  }
  const source = createClusterSource({
    client: createClient(world.access, { maxBytes: 100_000 }),
    groups: ['tollgate.dev'],
    onProblem: (collection, problem) => t.fail(`${collection}: ${problem}`),
  })
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  t.equal((await source.next(closing.signal)).resources.length, 40)
})

test('an object that is nested too deeply does not keep others from being read', async (t) => {
  const world = await startDouble(t)
  await world.apply(model)
  const depth = 9_000
  const spec = JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
  const deep = { metadata: { name: 'deep', namespace: 'llm', resourceVersion: '1' }, spec }
  const client = createClient(world.access)
  const source = createClusterSource({
    client: {
      ...client,
      async send(request) {
        const list = await client.send(request)
        const isTheirs = request.path.includes('/maasmodelrefs')
        return isTheirs ? { ...list, items: [...(list.items as object[]), deep] } : list
      },
    },
    groups: ['maas.opendatahub.io', 'tollgate.dev'],
    onProblem: (collection, problem) => t.fail(`${collection}: ${problem}`),
  })
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const { resources, problems } = await source.next(closing.signal)
  t.match(resources, [{ metadata: { name: 'small' } }])
  t.match(problems, [{ file: 'maasmodelrefs.maas.opendatahub.io llm/deep', severity: 'error' }])
})

test('reads tiers from their ConfigMap', async (t) => {
  const world = await startDouble(t)
  const tiers = (name: string) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'opendatahub' },
    data: { tiers: '- name: free\n  groups: [team-a]\n' },
  })
  await world.apply(tiers('another'))
  const { snapshot, controller } = await follow(t, world)
  t.equal(snapshot().tiers, undefined)
  await world.apply(tiers('tier-to-group-mapping'))
  await poll(() => snapshot().tiers?.[0]?.name === 'free', 'tiers')
  await world.apply({ ...tiers('tier-to-group-mapping'), data: { tiers: '- [' } })
  await poll(() => controller.problems().length > 0, 'the tiers are not YAML')
  t.match(controller.problems()[0], /^configmaps opendatahub\/tier-to-group-mapping: error/)
})

test('tiers of any namespace are parsed in another thread, and not if they are too long', async (t) => {
  const world = await startDouble(t)
  const mapping = (namespace: string, tiers: string) => ({
    ...{ apiVersion: 'v1', kind: 'ConfigMap' },
    metadata: { name: 'tier-to-group-mapping', namespace },
    data: { tiers },
  })
  let threads = 0
  const count = (): number => (threads += 1)
  process.on('worker', count)
  t.teardown(() => process.off('worker', count))
  const wide = `- name: wide\n  groups: [${'abc,'.repeat(1_000)}]\n`
  await world.apply(mapping('evil', `[${','.repeat(1_000_000)}]`))
  await world.apply(mapping('opendatahub', wide))
  const { snapshot, controller } = await follow(t, world)
  t.match(snapshot().tiers, [{ name: 'wide' }])
  t.match(controller.problems(), [/evil.*: data.tiers must have at most 32768 characters$/])
  t.equal(threads, 1)

  await world.apply(mapping('models-as-a-service', '- name: free\n  groups: [team-a]\n'))
  await world.apply(mapping('evil', '- ['))
  await world.apply(mapping('opendatahub', `${wide}  level: 2\n`))
  await poll(() => snapshot().tiers?.[0]?.name === 'free', 'the tiers of the administrators')
  await poll(() => controller.problems().every((each) => each.includes('ignored')), 'not parsed')
  t.match(controller.problems(), [
    /^configmaps evil.*: warning: .* duplicate .*; models-as-a-service.tier-to-group-mapping comes first$/,
    /^configmaps opendatahub.*: warning: .* is a duplicate ConfigMap and ignored/,
  ])
  t.equal(threads, 1)
})

test('leaves out and reports objects stored before their schema', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small', { backendUrl: 'nowhere' }))
  await world.apply(modelRef('large'))
  const { snapshot, controller } = await follow(t, world)
  t.strictSame([...snapshot().models.keys()], ['llm/large'])
  t.match(controller.problems(), [
    'modelrefs.tollgate.dev llm/small: error: ModelRef small: spec.backendUrl must be a URL like http://host:port/path',
  ])
})
