import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { createDatabase } from '../support/database.ts'
import { models, subscriptions } from '../support/gateway.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { makePod, removePod, setPhase } from '../support/kubernetes/pods.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { createPod, type Pod } from '../support/pod.ts'
import { poll } from '../support/poll.ts'

interface Revoked {
  readonly state: string
  readonly replicas: number
  readonly waitingFor?: readonly string[]
}

/**
 * Starts two pods on one database, by default in one cluster. The second is killed and has been
 * silent for a while.
 */
async function start(t: Test, isElsewhere = false) {
  const world = await startDouble(t)
  const other = isElsewhere ? await startDouble(t) : world
  const database = await createDatabase(t)
  const pods: Pod[] = []
  for (const [name, itsWorld] of [['first', world] as const, ['second', other] as const]) {
    const { uid } = await makePod(itsWorld, name)
    const env = {
      KUBECONFIG: writeKubeconfig(t, itsWorld.access),
      ...{ POD_NAMESPACE: 'tollgate', POD_NAME: name, POD_UID: uid },
    }
    const resources = [...models('http://127.0.0.1:9'), ...subscriptions({ plenty: 1e9 })]
    const tokens = ['token-ann,ann,1,"team,tollgate-admins"']
    const pod = await createPod(t, { name, database, resources, tokens, env })
    await pod.service.start()
    pods.push(pod)
  }
  const [first, second] = pods as [Pod, Pod]
  const headers = { authorization: 'Bearer token-ann', 'content-type': 'application/json' }
  const revoke = async (): Promise<Revoked> => {
    const body = '{"name":"k","subscription":"plenty"}'
    const made = await first.ask('POST /v1/api-keys', headers, body)
    const gone = await first.ask(`DELETE /v1/api-keys/${made.id}`, headers)
    return gone.propagation as Revoked
  }
  // On a slow machine the second that a revocation waits may be too short for all confirmations.
  const confirmedBy = (count: number) =>
    poll(async () => {
      const { state, replicas } = await revoke()
      return state === 'confirmed' && replicas === count
    }, `confirmed by ${count}`)
  await confirmedBy(2)
  await second.service.end('SIGKILL')
  t.match(await revoke(), { state: 'pending', waitingFor: ['second'] })
  await poll(() => first.service.log().includes('not reported'), 'the second pod is silent', 20_000)
  t.match(await revoke(), { state: 'pending', waitingFor: ['second'] }, 'its Pod still runs')
  return { world, first, second, revoke, confirmedBy }
}

root.test('a Failed pod is not waited for', async (t) => {
  const { world, first, second, revoke, confirmedBy } = await start(t)
  await setPhase(world, 'second', 'Unknown')
  t.match(await revoke(), { state: 'pending' }, 'its node may only be unreachable')

  world.faults.status = 503
  world.faults.cut()
  await setPhase(world, 'second', 'Failed')
  t.match(await revoke(), { state: 'pending' }, 'the failure is not known yet')
  await delay(1_000)
  t.match(await revoke(), { state: 'pending' }, 'unknown while the API server is unavailable')
  world.faults.status = 0
  await poll(
    () => first.service.log().includes('whose pods have ended'),
    'the failure is known',
    20_000,
  )
  await confirmedBy(1)

  // A process that still runs, as after a forced deletion, is waited for again.
  await second.service.start()
  await confirmedBy(2)
})

root.test('a deleted pod is not waited for, even if its name is reused', async (t) => {
  const { world, confirmedBy } = await start(t)
  await removePod(world, 'second')
  await makePod(world, 'second')
  await confirmedBy(1)
})

root.test('a pod of another cluster is not taken for a deleted one', async (t) => {
  const { world, revoke } = await start(t, true)
  await delay(1_000)
  t.match(await revoke(), { state: 'pending', waitingFor: ['second'] })
  t.notOk(
    world.faults.requests.some((each) => each.includes('/pods')),
    'its pods are not requested',
  )
})
