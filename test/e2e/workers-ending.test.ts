import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { startJournaled } from '../support/journaled.ts'
import { counts, gone, ofTwo, workersOf } from '../support/workers.ts'

const skip = envoyPath() === undefined && 'no Envoy'

root.test('workers start and end with their parent', { skip }, async (t) => {
  const gateway = await startJournaled(t as Test, { env: await ofTwo() })
  const [service] = gateway.all
  if (service === undefined) throw new Error('no service')
  const workers = workersOf(service.pid)
  for (let i = 0; i < 20; i += 1) await gateway.spend('bob', 11)
  const streams = Array.from({ length: 6 }, () => gateway.spend('ann', 5, { streamMs: 1_500 }))
  await delay(300)
  t.equal(await service.end('SIGTERM'), 0)
  await gone(workers)
  await Promise.all(streams)
  await service.start()
  const next = workersOf(service.pid)
  t.equal(next.length, 2)
  t.equal(await service.end('SIGKILL'), 'SIGKILL')
  await gone(next)
  await service.start()
  await gateway.readUp()
  // Counted again from the journal.
  await counts(gateway, 'bob', 220)
  await counts(gateway, 'ann', 30)
})
