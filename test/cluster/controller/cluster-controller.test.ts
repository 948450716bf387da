import { test } from 'tap'
import { accessPolicy, modelRef, subscription } from '../../support/documents.ts'
import { startTestController as start } from '../../support/kubernetes/controllers.ts'
import { inWorlds, startDouble, type World } from '../../support/kubernetes/world.ts'
import { poll } from '../../support/poll.ts'
import { httpRoute, toService } from '../../support/routes.ts'

const paid = (name: string, priority: number, model = 'llm/small') =>
  subscription(name, { groups: ['team-a'] }, { [model]: [[100, '1m']] }, { priority })

interface Read {
  readonly metadata: { readonly generation: number }
  readonly status?: {
    readonly phase: string
    readonly endpoint?: string
    readonly models?: number
    readonly observedGeneration: number
    readonly modelRefStatuses?: readonly { ready: boolean; reason: string }[]
    readonly conditions: readonly {
      type: string
      status: string
      reason: string
      message: string
      lastTransitionTime: string
    }[]
  }
}

async function read(world: World, plural: string, name: string): Promise<Read> {
  const namespace = plural === 'modelrefs' ? 'llm' : 'models-as-a-service'
  const path = `/apis/tollgate.dev/v1alpha1/namespaces/${namespace}/${plural}/${name}`
  return (await world.client.send({ path })) as unknown as Read
}

interface Policy {
  readonly metadata: {
    readonly uid: string
    readonly annotations: Readonly<Record<string, string>>
    readonly ownerReferences: readonly { readonly uid: string; readonly kind: string }[]
  }
  readonly spec: {
    readonly digest: string
    readonly accessPolicies?: readonly string[]
    readonly limits?: number
  }
  readonly status?: Read['status']
}

const plurals = { auth: 'modelauthpolicies', trlp: 'tokenratelimitpolicies' }

/** A generated policy in the namespace `llm`; undefined if there is none. */
async function policy(
  world: World,
  kind: keyof typeof plurals,
  model: string,
): Promise<Policy | undefined> {
  const place = `/apis/tollgate.dev/v1alpha1/namespaces/llm/${plurals[kind]}`
  try {
    return (await world.client.send({
      path: `${place}/maas-${kind}-${model}`,
    })) as unknown as Policy
  } catch (error) {
    if ((error as { status?: number }).status === 404) return undefined
    throw error
  }
}

inWorlds('each model that a resource names has its policies', async (t, world) => {
  const made = await world.apply(modelRef('small'))
  await world.apply(modelRef('unnamed'))
  const open = accessPolicy('open', ['llm/small'], { groups: ['team-a'] })
  await world.apply(open)
  await world.apply(paid('one', 5))
  const controller = await start(t, world)
  const accepted = (found: Policy | undefined) =>
    found?.status?.conditions.some(({ type, status }) => type === 'Accepted' && status === 'True')
  await poll(
    async () => accepted(await policy(world, 'auth', 'small')),
    'the auth policy is accepted',
  )
  await poll(
    async () => accepted(await policy(world, 'trlp', 'small')),
    'the policy of limits is accepted',
  )
  const auth = await policy(world, 'auth', 'small')
  t.match(auth, {
    metadata: {
      annotations: { 'tollgate.dev/auth-policies': 'open' },
      ownerReferences: [
        { kind: 'ModelRef', name: 'small', uid: (made.metadata as { uid: string }).uid },
      ],
    },
    spec: { accessPolicies: ['open'], accessPolicyCount: 1, groups: 1, users: 0 },
  })
  t.equal(await policy(world, 'auth', 'unnamed'), undefined)

  await world.apply(accessPolicy('more', ['llm/small'], { users: ['ada'] }))
  const fresh = await poll(async () => {
    const found = await policy(world, 'auth', 'small')
    return found?.spec.accessPolicies?.length === 2 ? found : undefined
  }, 'the policy names both AccessPolicies')
  t.equal(fresh?.metadata.uid, auth?.metadata.uid, 'replaced in place')
  t.not(fresh?.spec.digest, auth?.spec.digest)
  await poll(async () => {
    const { status } = await read(world, 'accesspolicies', 'more')
    return (status as { authPolicies?: readonly unknown[] } | undefined)?.authPolicies?.length === 1
  }, 'the status of the AccessPolicy lists the policy')

  const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/tokenratelimitpolicies/maas-trlp-small'
  await world.client.send({ method: 'DELETE', path })
  await poll(
    async () => accepted(await policy(world, 'trlp', 'small')),
    'the policy is created again',
  )
  await world.remove(open)
  await world.remove(accessPolicy('more', [], {}))
  await poll(
    async () => (await policy(world, 'auth', 'small')) === undefined,
    'the policy is deleted',
  )
  t.ok(await policy(world, 'trlp', 'small'))
  const { written } = controller
  await new Promise((settle) => setTimeout(settle, 500))
  t.ok(controller.written <= written + 1, 'nothing more is written')
})

test('a policy that is marked as not managed is left alone', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small'))
  await world.apply(paid('one', 5))
  const mine = {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind: 'TokenRateLimitPolicy',
    metadata: {
      name: 'maas-trlp-small',
      namespace: 'llm',
      labels: { 'app.kubernetes.io/managed-by': 'tollgate-controller' },
      annotations: { 'tollgate.dev/managed': 'false' },
    },
    spec: { modelRef: { name: 'small' }, digest: 'mine' },
  }
  await world.apply(mine)
  const theirs = { ...mine.metadata, name: 'maas-trlp-absent', labels: {}, annotations: {} }
  await world.apply({ ...mine, metadata: theirs })
  const controller = await start(t, world)
  await poll(() => controller.written === 2, 'the statuses are written')
  await world.remove(paid('one', 5))
  await world.apply(modelRef('later'))
  await poll(() => controller.written === 3, 'the status of the later model is written too')
  t.equal((await policy(world, 'trlp', 'small'))?.spec.digest, 'mine')
  t.ok(await policy(world, 'trlp', 'absent'), 'a policy of somebody else stays')
  await world.apply({ ...mine, metadata: { ...mine.metadata, annotations: {} } })
  await poll(
    async () => (await policy(world, 'trlp', 'small')) === undefined,
    'it is deleted once it is managed',
  )
})

test('kinds that are not installed are written once they are', async (t) => {
  const world = await startDouble(t)
  world.faults.forget('modelauthpolicies')
  await world.apply(modelRef('small'))
  await world.apply(accessPolicy('open', ['llm/small'], { groups: ['team-a'] }))
  const controller = await start(t, world)
  await poll(() => controller.written === 2, 'the statuses are written')
  const tried = world.faults.requests.filter((each) => /^PATCH .*modelauthpolicies/.test(each))
  t.strictSame(tried, [])
  world.faults.restore('modelauthpolicies')
  await poll(async () => await policy(world, 'auth', 'small'), 'the policy exists', 20_000)
})

test('a resource that cannot be put in force makes Accepted False', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small'))
  await world.apply(paid('one', 5))
  const endless = subscription('endless', {}, { 'llm/small': [[5, '9999h']] })
  await world.apply(endless)
  await start(t, world)
  const trlp = await poll(async () => {
    const found = await policy(world, 'trlp', 'small')
    return found?.status?.conditions.length ? found : undefined
  }, 'the conditions are written')
  t.match(trlp?.status?.conditions, [
    {
      type: 'Accepted',
      status: 'False',
      message: /Subscription endless is not in force: .*window/,
    },
  ])
  t.match(trlp?.spec, { limits: 1 })
  await poll(async () => {
    const { status } = await read(world, 'subscriptions', 'one')
    return status?.phase === 'Degraded'
  }, 'the other Subscription is Degraded')
  await world.remove(endless)
  await poll(
    async () => (await read(world, 'subscriptions', 'one')).status?.phase === 'Active',
    'it is Active again',
  )
})

inWorlds('statuses describe the state of resources', async (t, world) => {
  await world.apply(modelRef('small'))
  await world.apply(modelRef('bare', { backendUrl: undefined }))
  await world.apply(accessPolicy('open', ['llm/small', 'llm/absent'], { groups: ['team-a'] }))
  await world.apply(paid('one', 5))
  await world.apply(paid('two', 5))
  const controller = await start(t, world)
  const is = (plural: string, name: string, phase: string) =>
    poll(async () => (await read(world, plural, name)).status?.phase === phase, `${name} ${phase}`)
  await is('modelrefs', 'small', 'Ready')
  await is('modelrefs', 'bare', 'Pending')
  await is('accesspolicies', 'open', 'Degraded')
  await is('subscriptions', 'two', 'Active')
  t.match((await read(world, 'modelrefs', 'small')).status, {
    endpoint: 'https://models.example/llm/small',
    observedGeneration: 1,
    conditions: [{ type: 'Ready', status: 'True', reason: 'Reconciled' }],
  })
  t.match((await read(world, 'subscriptions', 'one')).status, {
    models: 1,
    modelRefStatuses: [{ name: 'small', namespace: 'llm', ready: true, reason: 'Valid' }],
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'SpecPriorityDuplicate', status: 'True', reason: 'SharedPriority', message: /two/ },
    ],
  })
  const duplicates = () => controller.lines.filter((line) => line.includes('priority 5 is shared'))
  t.equal(duplicates().length, 1, 'logged once')

  await poll(async () => {
    const before = controller.written
    await new Promise((settle) => setTimeout(settle, 300))
    return controller.written === before
  }, 'nothing is left to write')
  const { written } = controller
  const then = (await read(world, 'modelrefs', 'small')).status?.conditions[0]?.lastTransitionTime
  await world.apply(modelRef('small', { modelIds: ['other'] }))
  await poll(
    async () => (await read(world, 'modelrefs', 'small')).status?.observedGeneration === 2,
    'the new generation is observed',
  )
  const [ready] = (await read(world, 'modelrefs', 'small')).status?.conditions ?? []
  t.equal(ready?.lastTransitionTime, then, 'the time changes only with the status')
  await poll(() => controller.written > written, 'the write is counted')
  t.equal(controller.written, written + 1, 'nothing else is written')
  t.equal(duplicates().length, 1)
})

inWorlds('the status of a model has its route and the routes that bypass us', async (t, world) => {
  await world.apply(modelRef('small', { backendUrl: undefined }))
  const parentRefs = (...names: readonly string[]) =>
    names.map((name) => ({ name, namespace: 'gateways' }))
  const hostnames = ['small.example.com']
  const on = (...names: readonly string[]) =>
    httpRoute({
      spec: { parentRefs: parentRefs(...names), hostnames, rules: [toService('small')] },
    })
  await world.apply(on('public', 'models'))
  const controller = await start(t, world, { GATEWAY_INTERNAL: 'gateways/models' })
  const status = async () => (await read(world, 'modelrefs', 'small')).status
  await poll(async () => (await status())?.phase === 'Ready', 'Ready')
  t.match(await status(), {
    httpRouteName: 'small-kserve-route',
    httpRouteNamespace: 'llm',
    httpRouteGatewayName: 'models',
    httpRouteGatewayNamespace: 'gateways',
    httpRouteHostnames: hostnames,
    conditions: [
      { type: 'Ready', status: 'True', reason: 'Reconciled' },
      {
        type: 'Bypass',
        status: 'True',
        reason: 'OtherGateway',
        message:
          'reached past Tollgate by the HTTPRoute llm/small-kserve-route on the Gateway gateways/public',
      },
    ],
  })
  const told = () => controller.lines.filter((line) => line.includes('reached past Tollgate'))
  t.equal(told().length, 1)
  await world.apply(on('models'))
  await poll(
    async () =>
      (await status())?.conditions.find(({ type }) => type === 'Bypass')?.status === 'False',
    'only our own Gateway is left',
  )
  await world.remove(on())
  await poll(async () => (await status())?.phase === 'Pending', 'Pending')
  const { conditions = [], ...fields } = (await status()) ?? {}
  t.match(conditions, [
    {
      type: 'Ready',
      status: 'False',
      reason: 'BackendNotReady',
      message: /^spec.backendUrl is not set/,
    },
    { type: 'Programmed', status: 'False', reason: 'BackendNotReady' },
  ])
  t.match(conditions[2], { type: 'ModelIdentityUnique', status: 'True' })
  t.match(conditions[3], { type: 'GovernanceAttached', status: 'False' })
  t.match(conditions[4], { type: 'RuntimeReady', status: 'False' })
  t.equal(conditions.length, 5)
  t.strictSame(
    Object.keys(fields).sort(),
    ['observedGeneration', 'phase'],
    'the fields of the route are removed',
  )
  t.equal(told().length, 1)
})

test('a wrong status is corrected', async (t) => {
  const world = await startDouble(t)
  const made = await world.apply(modelRef('small'))
  const path = '/apis/tollgate.dev/v1alpha1/namespaces/llm/modelrefs/small/status'
  const status = { phase: 'Failed', conditions: [], note: 'mine' }
  await world.client.send({ method: 'PUT', path, body: { ...made, status } })
  await start(t, world)
  await poll(
    async () => (await read(world, 'modelrefs', 'small')).status?.phase === 'Ready',
    'Ready',
  )
})

test('an invalid resource is Failed', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small', { backendUrl: 'nowhere' }))
  await start(t, world)
  await poll(
    async () => (await read(world, 'modelrefs', 'small')).status?.phase === 'Failed',
    'Failed',
  )
  t.match((await read(world, 'modelrefs', 'small')).status?.conditions, [
    { type: 'Ready', status: 'False', reason: 'ReconcileFailed', message: /backendUrl must be/ },
  ])
})

test('an object that is being deleted is not Ready', async (t) => {
  const world = await startDouble(t)
  const { metadata, ...rest } = modelRef('small')
  const kept = { ...rest, metadata: { ...metadata, finalizers: ['example.com/mine'] } }
  await world.apply(kept)
  await start(t, world)
  const phase = async () => (await read(world, 'modelrefs', 'small')).status?.phase
  await poll(async () => (await phase()) === 'Ready', 'Ready', 30_000)
  await world.remove(kept)
  await poll(async () => (await phase()) === 'Failed', 'Failed', 30_000)
  const { status, metadata: after } = await read(world, 'modelrefs', 'small')
  t.match(status?.conditions, [{ message: 'it is being deleted, so it is not in force' }])
  t.equal(status?.observedGeneration, after.generation)
  t.equal(status?.endpoint, undefined)
})

test('a Subscription that is being deleted is not Active', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small'))
  const paid = subscription('a', { groups: ['team-a'] }, { 'llm/small': [[1, '1m']] })
  const kept = { ...paid, metadata: { ...paid.metadata, finalizers: ['example.com/mine'] } }
  await world.apply(kept)
  await start(t, world)
  const phase = async () => (await read(world, 'subscriptions', 'a')).status?.phase
  await poll(async () => (await phase()) === 'Active', 'Active', 30_000)
  await world.remove(kept)
  await poll(async () => (await phase()) === 'Failed', 'Failed', 30_000)
})

test('a status names the fields that are not known', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small', { backendURL: 'http://a' }))
  await world.apply(modelRef('large'))
  const limits = { 'llm/small': [[5, '1m']], 'llm/large': [[5, '1m']] } as const
  const both = subscription('both', {}, limits)
  const [small, large] = both.spec.modelRefs as readonly object[]
  const applied = {
    ...both,
    spec: { ...both.spec, modelRefs: [{ ...small, concurency: 3 }, large] },
  }
  const annotation = 'kubectl.kubernetes.io/last-applied-configuration'
  const annotations = { [annotation]: JSON.stringify(applied) }
  await world.apply({ ...both, metadata: { ...both.metadata, annotations } })
  await start(t, world)
  const ready = async (plural: string, name: string) =>
    (await read(world, plural, name)).status?.conditions.find(({ type }) => type === 'Ready')
  await poll(async () => await ready('modelrefs', 'small'), 'a status')
  t.match(await ready('modelrefs', 'small'), { status: 'True', message: /mean backendUrl/ })
  await poll(async () => await ready('subscriptions', 'both'), 'a status')
  t.match(await read(world, 'subscriptions', 'both'), {
    status: {
      phase: 'Degraded',
      modelRefStatuses: [{ ready: true }, { ready: false, reason: 'InvalidSpec' }],
    },
  })
  t.match(await ready('subscriptions', 'both'), {
    message: /modelRefs\[0\]\.concurency is not known/,
  })
})

test('one of two controllers writes, the other takes over when it is gone', async (t) => {
  const world = await startDouble(t)
  const first = await start(t, world)
  await poll(() => first.isLeader, 'the first one leads')
  const second = await start(t, world)
  await world.apply(modelRef('small'))
  await poll(
    async () => (await read(world, 'modelrefs', 'small')).status?.phase === 'Ready',
    'Ready',
  )
  t.notOk(second.isLeader)
  await poll(() => first.written === 1, 'the first one has written the status')
  t.equal(second.written, 0)
  await first.stop()
  await poll(() => second.isLeader, 'the second one leads')
  await world.apply(modelRef('large'))
  await poll(
    async () => (await read(world, 'modelrefs', 'large')).status?.phase === 'Ready',
    'Ready',
  )
  await poll(() => second.written === 1, 'the second one has written the status')
  t.equal(first.written, 1)
})

test('a Lease that nobody renews is taken after its duration, not before', async (t) => {
  const world = await startDouble(t)
  const lease = (acquireTime: string) => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'tollgate-controller', namespace: 'models-as-a-service' },
    // According to another machine's clock it ended long ago; that clock is not trusted.
    spec: {
      holderIdentity: 'killed',
      leaseDurationSeconds: 2,
      acquireTime,
      renewTime: '2020-01-01T00:00:00.000000Z',
      leaseTransitions: 6,
    },
  })
  await world.apply(lease('2020-01-01T00:00:00.000000Z'))
  const begunAt = performance.now()
  const controller = await start(t, world)
  t.notOk(controller.isLeader)
  await poll(() => controller.isLeader, 'it leads', 30_000)
  t.ok(performance.now() - begunAt >= 2_000)
  const path = '/apis/coordination.k8s.io/v1/namespaces/models-as-a-service/leases'
  const { spec } = await world.client.send({ path: `${path}/tollgate-controller` })
  t.match(spec, { leaseTransitions: 7 })
})

test('a leader that cannot renew its Lease stops writing', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader, 'the controller leads')
  world.faults.status = 500
  await poll(() => !controller.isLeader, 'it no longer leads')
  world.faults.status = 0
  await poll(() => controller.isLeader, 'it leads again')
})

test('requests that the API server refuses are repeated with delays', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader, 'the controller leads')
  world.faults.refuses = (method) => (method === 'PATCH' ? 409 : 0)
  for (let i = 0; i < 5; i += 1) await world.apply(modelRef(`m${i}`))
  const tries = () => world.faults.requests.filter((each) => each.startsWith('PATCH')).length
  await poll(() => tries() >= 10, 'each write is tried twice')
  world.faults.refuses = undefined
  await poll(() => controller.written === 5, 'all are written', 30_000)
  t.ok(tries() < 40, `${tries()} attempts`)
})

test('a missing permission to write is reported once, not for each object', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader, 'the controller leads')
  const told = () => controller.lines.filter((line) => line.includes('object_unwritable'))
  world.faults.refuses = (method) => (method === 'PATCH' ? 403 : 0)
  for (let i = 0; i < 5; i += 1) await world.apply(modelRef(`m${i}`))
  const tries = () => world.faults.requests.filter((each) => each.startsWith('PATCH')).length
  await poll(() => tries() >= 15, 'each write is tried three times', 30_000)
  t.equal(told().length, 1)
  t.match(told()[0], /modelrefs\/m\d\/status.*403/)
  world.faults.refuses = undefined
  await poll(() => controller.written === 5, 'all are written', 30_000)
  world.faults.refuses = (method) => (method === 'PATCH' ? 422 : 0)
  for (let i = 0; i < 3; i += 1) await world.apply(modelRef(`n${i}`))
  await poll(
    () => new Set(told().map((line) => JSON.parse(line).path)).size >= 4,
    'each invalid one',
    30_000,
  )
})

test('a new model does not wait behind hundreds of others', async (t) => {
  const world = await startDouble(t)
  const crowd = 400
  for (let i = 0; i < crowd; i += 1) await world.apply(modelRef(`m${i}`))
  const controller = await start(t, world)
  await poll(() => controller.written > 0, 'the first of many is written')
  await world.apply(modelRef('fresh'))
  await poll(
    async () => (await read(world, 'modelrefs', 'fresh')).status?.phase === 'Ready',
    'Ready',
    30_000,
  )
  t.ok(controller.written < crowd / 2, `after ${controller.written} others`)
})

test('a new model does not wait behind hundreds that were created before it', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader, 'the controller leads')
  const crowd = 400
  for (let i = 0; i < crowd; i += 1) await world.apply(modelRef(`m${i}`))
  await world.apply(modelRef('fresh'))
  await poll(
    async () => (await read(world, 'modelrefs', 'fresh')).status?.phase === 'Ready',
    'Ready',
    30_000,
  )
  t.ok(controller.written < crowd / 2, `after ${controller.written} others`)
})

test('a hundred edits cause few writes', async (t) => {
  const world = await startDouble(t)
  const controller = await start(t, world)
  await poll(() => controller.isLeader, 'the controller leads')
  const begunAt = performance.now()
  for (let i = 0; i < 100; i += 1) await world.apply(modelRef('small', { modelIds: [`id-${i}`] }))
  await poll(async () => {
    const { metadata, status } = await read(world, 'modelrefs', 'small')
    return status?.observedGeneration === metadata.generation
  }, 'the last edit is observed')
  const seconds = (performance.now() - begunAt) / 1_000
  t.ok(controller.written <= 2 + 20 * seconds, `${controller.written} writes in ${seconds} s`)
})

inWorlds('a ModelRef with a name that an earlier one has says so', async (t, world) => {
  await world.apply(modelRef('small'))
  await world.apply(modelRef('declaring', { modelIds: ['theirs'] }))
  await start(t, world)
  const identity = async (name: string) =>
    (await read(world, 'modelrefs', name)).status?.conditions.find(
      ({ type }) => type === 'ModelIdentityUnique',
    )
  for (const name of ['small', 'declaring']) {
    await poll(async () => (await identity(name))?.status === 'True', `${name} is unique`)
  }
  await world.apply(modelRef('small', { modelIds: ['theirs'] }))
  // Both may have been created in one second: then the earlier is the first by name.
  await poll(async () => {
    const statuses = await Promise.all(['small', 'declaring'].map(async (name) => identity(name)))
    return statuses.filter((each) => each?.status === 'False').length === 1
  }, 'the name is taken')
})
