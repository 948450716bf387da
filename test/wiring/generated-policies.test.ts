import type { Test } from 'tap'
import root from 'tap'
import { kinds, toCrd } from '../../k8s/write-crds.ts'
import type { ClusterController } from '../../src/cluster/controller/cluster-controller.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import type { ApiServer } from '../support/kubernetes/api-server.ts'
import { installCrds, noCrdServer } from '../support/kubernetes/crd-server.ts'
import {
  applyAs,
  enforced,
  pathOf,
  plurals,
  policyOf,
  startReporting,
  startWriting,
} from '../support/kubernetes/reporting.ts'
import { inWorlds, startDouble, type World } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'

// The tests mostly wait for back-offs and reports. A real server is shared by all.
if (noCrdServer) root.jobs = 8

const policyKinds = Object.keys(plurals) as (keyof typeof plurals)[]
const team = { groups: ['team'] }
const opened = (...groups: readonly string[]) => accessPolicy('open', ['llm/small'], { groups })
const paid = subscription('paid', team, { 'llm/small': [[100, '1m']] })

/** A model with both policies, enforced, and the controller that writes them. */
async function begin(t: Test, world: World) {
  await world.apply(modelRef('small'))
  await world.apply(opened('team'))
  await world.apply(paid)
  const controller = await startWriting(t, world, await startReporting(t, world))
  for (const kind of policyKinds) await enforced(world, kind, 'small')
  return controller
}

inWorlds('other writers may change fields of a policy that are not ours', async (t, world) => {
  await begin(t, world)
  const path = pathOf('auth', 'small')
  const { metadata, spec, status } = await enforced(world, 'auth', 'small')
  const mine = {
    ...{ apiVersion: 'tollgate.dev/v1alpha1', kind: 'ModelAuthPolicy' },
    metadata: { name: 'maas-auth-small', namespace: 'llm', labels: { 'example.com/team': 'ours' } },
  }
  await applyAs(world, 'somebody', path, mine)
  await world.apply(opened('team', 'others'))
  const changed = await enforced(world, 'auth', 'small', (found) => found.spec.groups === 2)
  t.equal(changed.metadata.labels['example.com/team'], 'ours', 'fields applied by others stay')
  t.equal(changed.metadata.labels['tollgate.dev/model'], 'small')
  t.equal(changed.metadata.uid, metadata.uid, 'replaced in place')
  t.not(changed.spec.digest, spec.digest)
  const timeOf = (found: typeof status) =>
    found?.conditions.find(({ type }) => type === 'Accepted')?.lastTransitionTime
  t.equal(timeOf(changed.status), timeOf(status), 'the time changes only with the status')

  const stolen = { ...mine, spec: { modelRef: { name: 'small' }, digest: 'other' } }
  if (world.faults === undefined) {
    await t.rejects(
      applyAs(world, 'somebody', path, stolen),
      { status: 409, message: /conflict with "tollgate-controller"/ },
      'our fields cannot be taken over without force',
    )
    const managers = changed.metadata.managedFields?.filter(
      ({ manager }) => manager === 'tollgate-controller',
    )
    t.strictSame(managers?.map(({ subresource }) => subresource ?? '').sort(), ['', 'status'])
  }
  await world.client.send({
    ...{ method: 'PATCH', path, body: stolen },
    contentType: 'application/merge-patch+json',
  })
  await enforced(world, 'auth', 'small', (found) => found.spec.digest === changed.spec.digest)
  const before = await enforced(world, 'auth', 'small')
  await world.client.send({
    ...{ method: 'PUT', path: `${path}/status` },
    body: { ...before, status: { observedGeneration: 1, conditions: [] } },
  })
  const again = await enforced(world, 'auth', 'small')
  t.strictSame(
    again.status?.conditions.map(({ type }) => type),
    ['Accepted', 'Enforced'],
    'a status that somebody has replaced is corrected',
  )
})

inWorlds('a hundred concurrent edits converge in few writes', async (t, world) => {
  const controller = await begin(t, world)
  const groups = (count: number) => Array.from({ length: count }, (_, i) => `team-${i}`)
  const { written } = controller
  const begunAt = performance.now()
  for (let i = 1; i <= 100; i += 1) await world.apply(opened(...groups(i)))
  const end = await enforced(world, 'auth', 'small', (found) => found.spec.groups === 100)
  const seconds = (performance.now() - begunAt) / 1_000
  const writes = controller.written - written
  t.ok(writes <= 2 + 20 * seconds, `${writes} writes in ${seconds} s`)
  t.comment(`${writes} writes for 100 edits in ${seconds.toFixed(1)} s`)
  await world.apply(opened('team'))
  const { spec } = await enforced(world, 'auth', 'small', (found) => found.spec.groups === 1)
  t.not(spec.digest, end.spec.digest)
  await isQuiet(controller)
})

/** Waits until nothing has been written for a while. */
async function isQuiet(controller: ClusterController): Promise<void> {
  await poll(
    async () => {
      const { written } = controller
      await new Promise((settle) => setTimeout(settle, 500))
      return controller.written === written && controller.waiting === 0
    },
    'nothing is left to write',
    30_000,
  )
}

type ApiServerFault = (faults: ApiServer, onTry: () => void) => void

/**
 * Refuses three writes of each object in a row and accepts the fourth: with pauses and in any
 * order, none may be lost.
 */
function refuse(status: number, retryAfterSeconds = 0): ApiServerFault {
  return (faults, onTry) => {
    const tried = new Map<string, number>()
    faults.retryAfterSeconds = retryAfterSeconds
    faults.refuses = (method, url) => {
      if (method !== 'PATCH') return 0
      onTry()
      const count = 1 + (tried.get(url) ?? 0)
      tried.set(url, count)
      return count % 4 === 0 ? 0 : status
    }
  }
}

const apiServerFaults: Record<string, ApiServerFault> = {
  'a storm of conflicts': refuse(409),
  'too many requests': refuse(429, 1),
  'an internal error': refuse(500),
  'half a line': (faults) => faults.cut('{"type":"MODIFIED","object":{"metada'),
  'an expired resource version': (faults) => {
    faults.compact()
    faults.cut()
  },
  silence(faults) {
    faults.silent = true
    setTimeout(() => {
      faults.silent = false
      faults.cut()
    }, 1_000)
  },
}

for (const [what, begins] of Object.entries(apiServerFaults)) {
  root.test(`${what} leaves no policy out of date`, { buffered: true }, async (t) => {
    const world = await startDouble(t)
    const { faults } = world
    const controller = await begin(t, world)
    const begunAt = performance.now()
    const { written } = controller
    let tries = 0
    begins(faults, () => {
      tries += 1
    })
    await world.apply(opened('team', 'others'))
    await enforced(world, 'auth', 'small', ({ spec }) => spec.groups === 2)
    await enforced(world, 'trlp', 'small')
    faults.refuses = undefined
    const seconds = (performance.now() - begunAt) / 1_000
    const writes = controller.written - written
    t.ok(writes <= 2 + 20 * seconds, `${writes} writes in ${seconds} s`)
    t.ok(tries <= 2 + 20 * seconds, `${tries} attempts`)
    await isQuiet(controller)
  })
}

inWorlds(
  'the policies of a namespace are deleted with it and come back with it',
  async (t, world) => {
    const controller = await begin(t, world)
    const first = await enforced(world, 'auth', 'small')
    // A namespace that is being deleted takes no new objects; policies may be deleted before their
    // model.
    if (world.faults !== undefined) {
      world.faults.refuses = (method, url) =>
        method === 'PATCH' && url.includes('/namespaces/llm/') ? 403 : 0
    }
    for (const kind of policyKinds) {
      await world.client.send({ method: 'DELETE', path: pathOf(kind, 'small') })
    }
    await world.remove(modelRef('small'))
    const ready = async () => {
      const own = '/apis/tollgate.dev/v1alpha1/namespaces/models-as-a-service/accesspolicies/open'
      return (await world.client.send({ path: own })).status as { phase?: string } | undefined
    }
    await poll(async () => (await ready())?.phase === 'Failed', 'its policy names nothing', 30_000)
    // In a cluster, a policy that was created again before its model was deleted is collected with
    // its owner.
    for (const kind of policyKinds) {
      const path = pathOf(kind, 'small')
      await world.client.send({ method: 'DELETE', path }).catch(() => {})
    }
    await isQuiet(controller)
    for (const kind of policyKinds) t.equal(await policyOf(world, kind, 'small'), undefined, kind)
    if (world.faults !== undefined) world.faults.refuses = undefined

    const made = await world.apply(modelRef('small'))
    for (const kind of policyKinds) {
      const { metadata } = await enforced(world, kind, 'small')
      t.equal(metadata.ownerReferences[0]?.uid, (made.metadata as { uid: string }).uid)
      t.not(metadata.uid, first.metadata.uid)
    }
    await poll(
      async () => (await ready())?.phase === 'Active',
      'its policy is Active again',
      30_000,
    )
  },
)

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Deletes one of our definitions with all its objects. */
async function forget({ faults, client }: World, plural: string): Promise<void> {
  if (faults !== undefined) return faults.forget(plural)
  const path = `${definitions}/${plural}.tollgate.dev`
  await client.send({ method: 'DELETE', path })
  const isGone = () =>
    client.send({ path }).then(
      () => false,
      () => true,
    )
  await poll(isGone, `${plural} are gone`, 60_000)
}

async function restore({ faults, access }: World, plural: string): Promise<void> {
  if (faults !== undefined) return faults.restore(plural)
  const found = kinds.find((each) => each.plural === plural)
  if (found !== undefined) await installCrds(access, [toCrd(found)])
}

inWorlds('definitions may be deleted and created again', async (t, world) => {
  const controller = await begin(t, world)
  const before = await enforced(world, 'trlp', 'small')
  await forget(world, 'tokenratelimitpolicies')
  await world.apply(opened('team', 'others'))
  await enforced(world, 'auth', 'small', ({ spec }) => spec.groups === 2)
  await restore(world, 'tokenratelimitpolicies')
  const again = await enforced(world, 'trlp', 'small')
  t.not(again.metadata.uid, before.metadata.uid)
  t.equal(again.spec.digest, before.spec.digest)

  await forget(world, 'modelrefs')
  await poll(
    async () => (await policyOf(world, 'auth', 'small')) === undefined,
    'no model has policies',
    60_000,
  )
  await restore(world, 'modelrefs')
  await world.apply(modelRef('small'))
  for (const kind of policyKinds) await enforced(world, kind, 'small')
  await isQuiet(controller)
})
