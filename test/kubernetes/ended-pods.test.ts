import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createClient } from '../../src/kubernetes/client.ts'
import { createEndedPods, type PodIdentity } from '../../src/kubernetes/ended-pods.ts'
import { makePod, removePod, setPhase } from '../support/kubernetes/pods.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { poll } from '../support/poll.ts'

async function start(t: Test) {
  const world = await startDouble(t)
  const told = new Set<string>()
  const problems: (string | undefined)[] = []
  const pods = createEndedPods<PodIdentity>({
    client: createClient(world.access),
    namespace: 'tollgate',
    onEnded: (ended) => {
      for (const { name } of ended) told.add(name)
    },
    onProblem: (problem) => problems.push(problem),
  })
  t.teardown(() => pods.stop())
  return { world, pods, told, problems }
}

test('reports only pods that have ended', async (t) => {
  const { world, pods, told } = await start(t)
  const all = []
  for (const name of ['done', 'failed', 'gone', 'again', 'lost', 'here']) {
    all.push(await makePod(world, name))
  }
  await setPhase(world, 'done', 'Succeeded')
  await setPhase(world, 'lost', 'Unknown')
  pods.check(all)
  await poll(() => told.has('done'), 'the pod "done" has ended')
  await setPhase(world, 'failed', 'Failed')
  await removePod(world, 'gone')
  await removePod(world, 'again')
  await makePod(world, 'again')
  for (const name of ['failed', 'gone', 'again']) await poll(() => told.has(name), name)
  t.strictSame([...told].sort(), ['again', 'done', 'failed', 'gone'])
  await poll(() => world.faults.watches === 1, 'the pods are watched')
  pods.check([])
  await poll(() => world.faults.watches === 0, 'the watch ends if no pods are of interest')
})

test('a pod that began after the watch broke has not ended', async (t) => {
  const { world, pods, told } = await start(t)
  const first = await makePod(world, 'first')
  const replaced = await makePod(world, 'replaced')
  pods.check([first])
  await poll(() => world.faults.watches === 1, 'the pods are watched')
  const isWatch = (url: string) => url.includes('watch=1')
  world.faults.refuses = (_, url) => (isWatch(url) ? 500 : 0)
  world.faults.cut()
  await removePod(world, 'replaced')
  const all = [first, await makePod(world, 'second'), await makePod(world, 'replaced')]
  const listed = () => world.faults.requests.filter((each) => each.includes('fieldSelector')).length
  pods.check(all)
  await poll(() => listed() === 2, 'the missing pods are looked for')
  await delay(100)
  t.strictSame([...told], [])
  world.faults.status = 500
  pods.check([...all, replaced])
  await poll(() => listed() > 2, 'not even that is possible')
  await delay(100)
  t.strictSame([...told], [])
  world.faults.status = 0
  pods.check([replaced])
  await poll(() => told.has('replaced'), 'the earlier pod of this name has ended')
})

test('no pod has ended while the API server is unavailable', async (t) => {
  const { world, pods, told, problems } = await start(t)
  const pod = await makePod(world, 'one')
  await setPhase(world, 'one', 'Failed')
  for (const status of [500, 403, 401]) {
    world.faults.status = status
    pods.check([pod])
    await poll(() => problems.length === 1, `${status} is reported`)
    problems.length = 0
    pods.check([])
  }
  // Every API server has pods, so a 404 says nothing about them.
  world.faults.forget('pods')
  world.faults.status = 0
  const before = world.faults.requests.length
  pods.check([pod])
  await poll(() => world.faults.requests.length > before, '404')
  await delay(300)
  pods.check([pod])
  t.strictSame([...told], [])
  pods.check([])
  world.faults.restore('pods')
  await makePod(world, 'two')
  pods.check([pod])
  await poll(() => told.has('one'), 'the pod "one" was deleted')
})
