import { pino } from 'pino'
import { test } from 'tap'
import { formatAddress, loadConfig } from '../../src/settings/config.ts'
import { serveController } from '../../src/wiring/controller-process.ts'
import { modelRef } from '../support/documents.ts'
import { freePorts } from '../support/free-ports.ts'
import { writeKubeconfig } from '../support/kubernetes/kubeconfig.ts'
import { startDouble } from '../support/kubernetes/world.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'

test('a controller is alive at once, and ready once it has read the cluster', async (t) => {
  const world = await startDouble(t)
  await world.apply(modelRef('small', { backendUrl: 'nowhere' }))
  world.faults.status = 503
  const [port] = await freePorts(1)
  const at = `http://127.0.0.1:${port}`
  const config = loadConfig({
    RESOURCES: 'kubernetes',
    KUBECONFIG: writeKubeconfig(t, world.access),
    INTERNAL_ADDRESS: `127.0.0.1:${port}`,
    METRICS_ADDRESS: '127.0.0.1:0',
  })
  const starting = serveController(config, pino({ level: 'silent' }))
  const statusOf = (path: string) =>
    fetch(at + path).then(
      ({ status }) => status,
      () => 0,
    )
  await poll(async () => (await statusOf('/livez')) === 200, 'alive')
  t.equal(await statusOf('/readyz'), 503)
  world.faults.status = 0
  const controller = await starting
  t.equal(await statusOf('/readyz'), 200)
  t.equal(await statusOf('/internal/v1/resources'), 404)

  const scrape = async () => {
    const metrics = formatAddress(controller.metrics ?? { path: '' })
    return readScrape(await (await fetch(`http://${metrics}/metrics`)).text())
  }
  await poll(
    async () => (await scrape()).value('tollgate_controller_writes_total') === 1,
    'written',
  )
  const figures = await scrape()
  t.equal(figures.value('tollgate_controller_leader'), 1)
  t.equal(figures.value('tollgate_controller_waiting'), 0)
  t.equal(figures.value('tollgate_controller_held_back'), undefined, 'it asks for nothing else')
  t.equal(figures.value('tollgate_resource_problems'), 1)
  t.equal(figures.value('tollgate_resources_failing'), 0)
  t.ok((figures.value('process_cpu_seconds_total') ?? 0) > 0)
  world.faults.status = 503
  world.faults.cut()
  await poll(async () => (await scrape()).value('tollgate_resources_failing') === 1, 'said')
  world.faults.status = 0
  await poll(async () => (await scrape()).value('tollgate_resources_failing') === 0, 'over', 30_000)

  t.equal(await controller.stop(), true)
  t.equal(await statusOf('/livez'), 0, 'it no longer listens')
})

test('an address that is in use is reported', async (t) => {
  const world = await startDouble(t)
  const config = loadConfig({
    RESOURCES: 'kubernetes',
    KUBECONFIG: writeKubeconfig(t, world.access),
    INTERNAL_ADDRESS: world.access.server.replace('http://', ''),
  })
  await t.rejects(serveController(config, pino({ level: 'silent' })), {
    message: /^INTERNAL_ADDRESS: .* is already taken/,
  })
})
