import { type Test, test } from 'tap'
import { createGatewayClient } from '../../../src/admin/models/gateway-client.ts'
import { createProbeModel } from '../../../src/admin/models/model-probe.ts'
import { readListWithin } from '../../../src/gateway/list-allowance.ts'
import type { Caller } from '../../../src/identity/rules/caller.ts'
import { snapshotOf } from '../../support/documents.ts'
import { listOf, startScripted } from '../../support/list-api.ts'
import { poll } from '../../support/poll.ts'

const caller: Caller = { by: 'token', user: 'alice', groups: [], proof: { by: 'file' } }
const large = JSON.stringify(listOf(...Array.from({ length: 10_000 }, (_, i) => `m-${i}`)))

/** Probes of servers with very long lists, apart from one that the test answers. */
async function startProbing(t: Test, left = 100_000_000) {
  const held: ((status: number, body?: object) => void)[] = []
  const gateway = await startScripted(t, ({ url }, response) => {
    if (url?.includes('/large-')) response.end(large)
    else held.push((status, body = {}) => response.writeHead(status).end(JSON.stringify(body)))
  })
  const clock = { now: 0 }
  const allowance = { left }
  const brokenOff: Error[] = []
  const probeModel = createProbeModel({
    askGateway: createGatewayClient(gateway.at),
    seal: () => '',
    readWithin: (response, read) =>
      readListWithin(allowance, response, read).catch((error) => {
        brokenOff.push(error)
        allowance.left = 100_000_000
        throw error
      }),
    limitMs: 60_000,
    cacheTtlMs: 60_000,
    monotonic: () => clock.now,
  })
  const common = { caller, authorization: 'Bearer a', address: undefined, subscription: 'basic' }
  const request = { ...common, snapshot: snapshotOf() }
  const probe = (model = 'llm/slow') => probeModel({ ...request, model })
  /** More names than are cached. */
  async function fill() {
    const models = Array.from({ length: 11 }, (_, i) => `llm/large-${i}`)
    const lists = await Promise.all(models.map(probe))
    t.ok(lists.every(({ length }) => length === 10_000))
  }
  async function answerNext(status: number, body?: object) {
    await poll(() => held.length > 0, 'the server is asked')
    held.shift()?.(status, body)
  }
  return { probe, fill, answerNext, held, clock, brokenOff }
}

test('long lists of others do not fail a probe that is waiting', async (t) => {
  const { probe, fill, answerNext, held } = await startProbing(t)
  for (const [status, outcome] of [
    [200, [{ id: 'm' }]],
    [403, 'closed'],
    [404, 'missing'],
  ] as const) {
    const [one, other] = [probe(`llm/slow-${status}`), probe(`llm/slow-${status}`)]
    await poll(() => held.length === 1, 'the server is asked')
    await fill()
    await answerNext(status, listOf('m'))
    t.match(await one, outcome)
    t.equal(await other, await one, 'both share it')
  }
})

test('nor one in the background', async (t) => {
  const { probe, fill, answerNext, held, clock } = await startProbing(t)
  const failed = probe()
  for (let attempt = 0; attempt < 4; attempt += 1) await answerNext(500)
  t.equal(await failed, 'silent')
  clock.now += 5_000
  t.equal(await probe(), 'silent')
  await poll(() => held.length === 1, 'the server is asked again')
  await fill()
  await answerNext(200, listOf('m'))
  await poll(async () => Array.isArray(await probe()), 'the server is known')
})

test('a long list for which the allowance has nothing left is asked for again', async (t) => {
  const { probe, brokenOff } = await startProbing(t, 0)
  t.equal((await probe('llm/large-0')).length, 10_000)
  t.match(brokenOff, [{ message: /others are being read/ }], 'once')
})
