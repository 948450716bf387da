import { type Test, test } from 'tap'
import { accessPolicy, modelRef, original, subscription } from '../support/documents.ts'
import { startTestController, type TestController } from '../support/kubernetes/controllers.ts'
import { inWorlds, startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'

const group = 'maas.opendatahub.io'
const finalizer = `${group}/model-cleanup`

const model = original(modelRef('small'), [finalizer])
const policy = original(accessPolicy('open', ['llm/small'], { groups: ['team-a'] }), [
  `${group}/authpolicy-cleanup`,
])
const paid = original(
  subscription('paid', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] }),
  [`${group}/subscription-cleanup`],
)
const tenant = original({ kind: 'Tenant', metadata: { name: 'default-tenant' }, spec: {} })
const all = [model, policy, paid, tenant]

const start = (t: Test, world: World): Promise<TestController> =>
  startTestController(t, world, { STATUS_GROUPS: `tollgate.dev,${group}` })

/** The Lease of the original's controller; by default valid for an hour. */
function lease(leaseDurationSeconds = 3_600) {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'maas-controller.models-as-a-service.opendatahub.io', namespace: 'theirs' },
    spec: {
      holderIdentity: 'them',
      leaseDurationSeconds,
      renewTime: '2020-01-01T00:00:00.000000Z',
    },
  }
}

interface Read {
  readonly metadata: {
    readonly resourceVersion: string
    readonly deletionTimestamp?: string
    readonly finalizers?: readonly string[]
  }
  readonly status?: {
    readonly phase?: string
    readonly conditions?: readonly Readonly<Record<string, unknown>>[]
    readonly [field: string]: unknown
  }
}

function pathOf(plural: string, name: string): string {
  const namespace = plural === 'maasmodelrefs' ? 'llm' : 'models-as-a-service'
  return `/apis/${group}/v1alpha1/namespaces/${namespace}/${plural}/${name}`
}

/** undefined: it does not exist. */
async function read(world: World, plural: string, name: string): Promise<Read | undefined> {
  try {
    return (await world.client.send({ path: pathOf(plural, name) })) as unknown as Read
  } catch (error) {
    if ((error as { status?: number }).status === 404) return undefined
    throw error
  }
}

const phaseOf = async (world: World, plural: string, name: string) =>
  (await read(world, plural, name))?.status?.phase

const isGone = async (world: World, plural: string, name: string) =>
  (await read(world, plural, name)) === undefined

/** Requests that change an object of the original. */
function writesOf({ faults }: World): readonly string[] {
  return (faults?.requests ?? []).filter((each) => /^(?!GET)\w+ \S*maas\.opendatahub/.test(each))
}

/** Waits until nothing has been written for a while. */
async function rest(controller: TestController): Promise<void> {
  await poll(async () => {
    const { written } = controller
    await new Promise((settle) => setTimeout(settle, 300))
    return controller.written === written && controller.waiting === 0
  }, 'nothing is left to write')
}

inWorlds("the original's statuses are written with its own fields", async (t, world) => {
  const lastTransitionTime = '2026-01-01T00:00:00Z'
  const left = (type: string) => ({
    ...{ type, status: 'False', reason: 'ReconcileFailed', message: 'no route' },
    lastTransitionTime,
  })
  await world.apply({
    ...model,
    status: { phase: 'Pending', httpRouteName: 'old', conditions: [left('Ready')] },
  })
  await world.apply(policy)
  await world.apply(paid)
  await world.apply({
    ...tenant,
    status: { phase: 'Degraded', conditions: [left('DeploymentsAvailable')] },
  })
  const controller = await start(t, world)
  await poll(async () => (await phaseOf(world, 'tenants', 'default-tenant')) === 'Active', 'Tenant')
  await rest(controller)
  const ready = { type: 'Ready', status: 'True', reason: 'Reconciled', observedGeneration: 1 }
  const { status: ofModel } = (await read(world, 'maasmodelrefs', 'small')) ?? {}
  t.match(ofModel, {
    phase: 'Ready',
    endpoint: 'https://models.example/llm/small',
    conditions: [ready, { type: 'Programmed' }],
  })
  t.strictSame(Object.keys(ofModel ?? {}).sort(), ['conditions', 'endpoint', 'phase'])
  const { status: ofPolicy } = (await read(world, 'maasauthpolicies', 'open')) ?? {}
  t.match(ofPolicy, {
    phase: 'Degraded',
    authPolicies: [{ name: 'maas-auth-small', namespace: 'llm', model: 'small', ready: false }],
  })
  t.strictSame(Object.keys(ofPolicy ?? {}).sort(), ['authPolicies', 'conditions', 'phase'])
  const { status: ofPaid } = (await read(world, 'maassubscriptions', 'paid')) ?? {}
  t.match(ofPaid, {
    phase: 'Active',
    modelRefStatuses: [{ name: 'small', namespace: 'llm', ready: true, reason: 'Valid' }],
    tokenRateLimitStatuses: [{ name: 'maas-trlp-small', model: 'small', ready: true }],
    conditions: [ready, { type: 'SpecPriorityDuplicate', status: 'False' }],
  })
  t.strictSame(Object.keys(ofPaid ?? {}).sort(), [
    ...['conditions', 'modelRefStatuses', 'phase', 'tokenRateLimitStatuses'],
  ])
  const { status: ofTenant } = (await read(world, 'tenants', 'default-tenant')) ?? {}
  t.match(ofTenant?.conditions, [ready])
  t.equal(ofTenant?.conditions?.length, 1, 'conditions that nobody maintains any more are removed')
  t.strictSame(
    (await read(world, 'maasmodelrefs', 'small'))?.metadata.finalizers,
    [finalizer],
    'an object that stays keeps its finalizer',
  )

  await controller.stop()
  const again = await start(t, world)
  await poll(() => again.isLeader && again.isHeldBack === false, 'another controller writes')
  await rest(again)
  t.equal(again.written, 0, 'nothing is written without a change')
})

test('by default nothing of the original is written', async (t) => {
  const world = await startDouble(t)
  for (const each of all) await world.apply(each)
  await world.apply(modelRef('small'))
  const controller = await startTestController(t, world)
  await poll(
    () => controller.written === 5,
    'the status of ours, and both policies with theirs, are written',
  )
  await world.remove(model)
  await world.remove(policy)
  await world.apply(modelRef('later'))
  await poll(() => controller.written > 5, 'a later status is written')
  await rest(controller)
  t.strictSame(writesOf(world), [])
  t.notOk(
    world.faults.requests.some((each) => each.includes('v1/leases?')),
    'nor requested',
  )
  t.equal(controller.isHeldBack, undefined)
  t.match(await read(world, 'maasmodelrefs', 'small'), { metadata: { finalizers: [finalizer] } })
})

test('statuses say whether an object is shadowed or invalid', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small'))
  await world.apply(model)
  await world.apply(original(modelRef('broken', { backendUrl: 'nowhere' })))
  await start(t, world)
  const messageOf = async (name: string) => {
    const { status } = (await read(world, 'maasmodelrefs', name)) ?? {}
    return status?.phase === 'Failed' ? status.conditions?.[0]?.message : undefined
  }
  t.match(
    await poll(() => messageOf('small'), 'the shadowed one'),
    /is defined as modelrefs.tollgate.dev llm\/small too, and that one counts/,
  )
  t.match(await poll(() => messageOf('broken'), 'the invalid one'), /backendUrl must be/)
  await world.remove(modelRef('small'))
  await poll(
    async () => (await phaseOf(world, 'maasmodelrefs', 'small')) === 'Ready',
    'without ours it is in force',
  )
})

inWorlds(
  "while the original's controller is alive nothing of the original is written",
  async (t, world) => {
    await world.apply(lease())
    for (const each of all) await world.apply(each)
    await world.apply(modelRef('mine'))
    const controller = await start(t, world)
    await poll(
      () => controller.written === 5,
      'the status of ours, and both policies with theirs, are written',
    )
    await world.remove(paid)
    await rest(controller)
    t.equal(controller.isHeldBack, true)
    t.strictSame(writesOf(world), [])
    t.match(await read(world, 'maasmodelrefs', 'small'), { status: undefined })
    const told = (text: RegExp) => controller.lines.filter((line) => text.test(line)).length
    t.equal(told(/"holder":"them".*controller is alive: nothing of maas.opendatahub.io/), 1)

    await world.apply(lease(1))
    await poll(async () => (await phaseOf(world, 'maasmodelrefs', 'small')) === 'Ready', 'written')
    await poll(
      () => isGone(world, 'maassubscriptions', 'paid'),
      'an object deleted meanwhile is gone',
    )
    t.ok(told(/controller is not alive: maas.opendatahub.io is written/))
    await rest(controller)

    await world.apply(lease())
    await poll(() => controller.isHeldBack === true, "the original's controller is alive again")
    const { written } = controller
    const writes = writesOf(world).length
    await world.remove(model)
    await world.apply(modelRef('later'))
    await poll(() => controller.written > written, 'only ours are written')
    await rest(controller)
    t.equal(writesOf(world).length, writes)
    t.match(await read(world, 'maasmodelrefs', 'small'), { metadata: { finalizers: [finalizer] } })
  },
)

test('if cannot read Leases nothing of the original is written', async (t) => {
  const world = await startDouble(t)
  world.faults.refuses = (method, url) => (/^GET .*v1\/leases\?/.test(`${method} ${url}`) ? 403 : 0)
  await world.apply(model)
  await world.apply(modelRef('mine'))
  const controller = await start(t, world)
  await poll(() => controller.written === 1, 'the status of ours is written')
  await rest(controller)
  t.strictSame(writesOf(world), [])
  t.match(
    controller.lines.filter((line) => line.includes('cannot read Leases')),
    [/403/],
  )
  world.faults.refuses = undefined
  await poll(async () => (await phaseOf(world, 'maasmodelrefs', 'small')) === 'Ready', 'written')
})

inWorlds('a deleted object goes once the other finalizers are removed', async (t, world) => {
  for (const each of all) await world.apply(each)
  const theirs = 'example.com/backup'
  await world.apply({
    ...policy,
    metadata: { ...policy.metadata, finalizers: [theirs, finalizer] },
  })
  const controller = await start(t, world)
  await poll(async () => (await phaseOf(world, 'maasmodelrefs', 'small')) === 'Ready', 'read')
  await rest(controller)
  await world.remove(policy)
  const going = await poll(async () => {
    const found = await read(world, 'maasauthpolicies', 'open')
    return found?.metadata.finalizers?.length === 1 ? found : undefined
  }, 'only other finalizers are left')
  t.strictSame(going?.metadata.finalizers, [theirs])
  t.ok(going?.metadata.deletionTimestamp)
  await world.client.send({
    method: 'PATCH',
    path: pathOf('maasauthpolicies', 'open'),
    contentType: 'application/merge-patch+json',
    body: { metadata: { finalizers: null } },
  })
  await poll(() => isGone(world, 'maasauthpolicies', 'open'), 'the object is gone')
  await world.remove(model)
  await poll(() => isGone(world, 'maasmodelrefs', 'small'), 'the model is gone')
  await poll(
    async () => (await phaseOf(world, 'maassubscriptions', 'paid')) === 'Failed',
    'the resource that names it has a new status',
  )
  await world.remove(paid)
  await poll(() => isGone(world, 'maassubscriptions', 'paid'), 'the Subscription is gone')
})

test('an object that changes meanwhile is read again', async (t) => {
  const world = await startDouble(t)
  const theirs = 'example.com/backup'
  await world.apply({ ...model, metadata: { ...model.metadata, finalizers: [theirs, finalizer] } })
  const controller = await start(t, world)
  await poll(async () => (await phaseOf(world, 'maasmodelrefs', 'small')) === 'Ready', 'read')
  await rest(controller)
  let refused = 0
  world.faults.refuses = (method, url) => {
    if (method !== 'PATCH' || !url.startsWith(`${pathOf('maasmodelrefs', 'small')}?`)) return 0
    refused += 1
    return refused <= 2 ? 409 : 0
  }
  await world.remove(model)
  await poll(async () => {
    const found = await read(world, 'maasmodelrefs', 'small')
    return found?.metadata.finalizers?.length === 1
  }, 'the finalizer is removed nevertheless')
  t.strictSame((await read(world, 'maasmodelrefs', 'small'))?.metadata.finalizers, [theirs])
  t.equal(refused, 3)
})

test('a new leader completes what another one has begun', async (t) => {
  const world = await startDouble(t)
  await world.apply(lease())
  await world.apply(paid)
  const first = await start(t, world)
  await poll(() => first.isLeader, 'the first one leads')
  const second = await start(t, world)
  await world.remove(paid)
  await rest(first)
  t.equal((await read(world, 'maassubscriptions', 'paid'))?.metadata.finalizers?.length, 1)
  await first.stop()
  await world.apply(lease(1))
  await poll(() => isGone(world, 'maassubscriptions', 'paid'), 'the object is gone', 30_000)
  t.equal(first.written, 0)
  await rest(second)
  t.equal(second.written, 1, 'with a single request')
})

test('a hundred edits of an original cause few writes', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader && controller.isHeldBack === false, 'the controller writes')
  const begunAt = performance.now()
  for (let i = 0; i < 100; i += 1)
    await world.apply(original(modelRef('small', { modelIds: [`id-${i}`] })))
  await poll(async () => {
    const { status } = (await read(world, 'maasmodelrefs', 'small')) ?? {}
    return status?.conditions?.[0]?.observedGeneration === 100
  }, 'the last edit is observed')
  const seconds = (performance.now() - begunAt) / 1_000
  t.ok(controller.written <= 2 + 20 * seconds, `${controller.written} writes in ${seconds} s`)
})
