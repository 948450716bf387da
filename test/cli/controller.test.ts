import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'tap'
import { runAt } from '../support/command.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { freePorts } from '../support/free-ports.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { enforced, startReporting } from '../support/kubernetes/reporting.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

const groups = (count: number) => Array.from({ length: count }, (_, i) => `team-${i}`)

test('another controller takes over from a paused or killed leader', async (t) => {
  const world = await startDouble(t)
  const open = (count: number) =>
    world.apply(accessPolicy('open', ['llm/small'], { groups: groups(count) }))
  await world.apply(modelRef('small'))
  await open(1)
  await world.apply(subscription('paid', { groups: ['team-0'] }, { 'llm/small': [[100, '1m']] }))
  const settings = {
    ...{ RESOURCES: 'kubernetes', KUBECONFIG: writeKubeconfig(t, world.access) },
    ...{ DATABASE_URL: await startReporting(t, world), LOG_LEVEL: 'info' },
  }
  const start = async () => {
    const [internal, metrics] = await freePorts(2)
    const addresses = {
      INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
      METRICS_ADDRESS: `127.0.0.1:${metrics}`,
    }
    const { signal } = runTollgate(t, ['controller'], { ...settings, ...addresses })
    const read = async (name: string): Promise<number | undefined> => {
      const answer = await fetch(`http://127.0.0.1:${metrics}/metrics`).catch(() => undefined)
      return answer && readScrape(await answer.text()).value(`tollgate_controller_${name}`)
    }
    return { signal, read, leads: async () => (await read('leader')) === 1 }
  }
  /** Waits until the policy has `count` groups and is enforced. */
  const counts = async (count: number) =>
    await enforced(world, 'auth', 'small', ({ spec }) => spec.groups === count)

  const first = await start()
  await poll(first.leads, 'the first controller leads', 60_000)
  await counts(1)
  await enforced(world, 'trlp', 'small')
  const second = await start()
  await poll(
    async () => (await second.read('leader')) === 0,
    'the second controller has started',
    60_000,
  )
  // The statuses of what it has just applied may still be under way.
  let written: number | undefined
  const isAtRest = async () => {
    const before = written
    written = await first.read('writes_total')
    await delay(500)
    return written === before
  }
  await poll(isAtRest, 'the first controller has written all', 30_000)

  await t.test('paused for longer than its Lease', async (t) => {
    first.signal('SIGSTOP')
    await open(2)
    const { metadata } = await counts(2)
    t.ok(await second.leads())
    first.signal('SIGCONT')
    await poll(async () => (await first.read('leader')) === 0, 'it no longer leads', 60_000)
    await open(3)
    const changed = await counts(3)
    t.equal(changed.metadata.uid, metadata.uid)
    t.ok(await second.leads())
    t.equal(
      await first.read('writes_total'),
      written,
      'a paused leader writes nothing after its Lease ended',
    )
  })

  await t.test('killed', async () => {
    second.signal('SIGKILL')
    await open(4)
    await counts(4)
    await poll(first.leads, 'the first controller leads again')
  })
})

test('a controller that cannot read the cluster stops at once', async (t) => {
  const world = await startDouble(t)
  world.faults.status = 503
  const [internal] = await freePorts(1)
  const controller = runTollgate(t, ['controller'], {
    ...{ RESOURCES: 'kubernetes', KUBECONFIG: writeKubeconfig(t, world.access) },
    ...{ INTERNAL_ADDRESS: `127.0.0.1:${internal}`, METRICS_ADDRESS: 'off' },
  })
  await controller.until('"code":"cluster_unreadable"')
  controller.signal('SIGTERM')
  t.equal(await controller.ended, 0)
})

test('a controller reads RESOURCES from a file, too', async (t) => {
  const RESOURCES_FILE = join(temporaryFolder(t), 'resources')
  writeFileSync(RESOURCES_FILE, 'file:/nowhere')
  const refused = await runAt({ env: { RESOURCES_FILE } }, 'controller')
  t.match(refused, { status: 1, err: /^RESOURCES: must be kubernetes/ })
})
