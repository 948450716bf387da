import { test } from 'tap'
import { digest128 } from '../../../src/formats/bounded-text.ts'
import { inSlices } from '../../../src/runtime/slices.ts'
import { rowsInSteps } from '../../../src/usage/ledger/postgres/ledger.ts'
import { createUsageSums } from '../../../src/usage/ledger/sums.ts'
import { chargeOf, type Usage } from '../../../src/usage/rules/usage.ts'

const usage: Usage = {
  ...{ user: 'ada', subscription: 'team-a', model: 'llm/small', status: 200, bytes: 0 },
  ...{ reported: new Map(), estimate: { input: 50, bytesPerToken: 200 } },
}

/** Sums of responses as they are charged. */
function createSums() {
  const sums = createUsageSums()
  return {
    add: (usage: Usage, endedAt: number) => sums.add(usage, chargeOf(usage, 'allow'), endedAt),
    drain: sums.drain,
  }
}

test('what is charged is summed, whether or not there was a response', async (t) => {
  const sums = createSums()
  sums.add({ ...usage, reported: new Map([['total_tokens', 7]]) }, 0)
  sums.add({ ...usage, status: 0, hasLeft: true }, 0)
  sums.add({ ...usage, status: 0 }, 0)
  sums.add({ ...usage, status: 503 }, 0)
  t.match(sums.drain(), [{ answers: 2, total: 57, estimated: 50, input: 0, output: 0 }])
})

test('the reported part of unusable usage is summed as such', async (t) => {
  const sums = createSums()
  sums.add({ ...usage, reported: new Map([['output_tokens', 7]]) }, 0)
  sums.add({ ...usage, reported: new Map([['prompt_tokens', 5]]), bytes: 4 }, 0)
  t.match(sums.drain(), [{ answers: 2, total: 63, estimated: 51, input: 5, output: 7 }])
})

test('what is charged is summed by its prices, each response rounded up', async (t) => {
  const sums = createSums()
  const reported = new Map(
    Object.entries({ prompt_tokens: 10, completion_tokens: 3, details_cached_tokens: 4 }),
  )
  const dear = { ...usage, reported, prices: 'token=0.0000000003', weights: 'cached=500' }
  sums.add(dear, 0)
  sums.add(dear, 1)
  sums.add({ ...dear, prices: 'token=0&request=9000000' }, 2)
  sums.add({ ...dear, prices: 'token=0&request=9000000' }, 3)
  sums.add({ ...usage, prices: 'token=1', status: 503 }, 4)
  sums.add({ ...usage, reported }, 5)
  t.match(sums.drain(), [
    { cost: 8, total: 26, weight: -4, pricedInput: 12, pricedCached: 8, cacheWrite: 0 },
    { cost: 18_000_000n * 10n ** 9n, answers: 2 },
    { cost: null, prices: '', answers: 1 },
  ])
})

test('without prices a row is that of the version before', async (t) => {
  const sums = createSums()
  const payer = 'organization=acme&cost_center=42&rate=0.5'
  sums.add({ ...usage, payer, reported: new Map([['total_tokens', 7]]) }, 0)
  const names = ['ada', 'team-a', 'llm/small', '', 'acme', '42', '0.5']
  t.match(await inSlices(rowsInSteps(sums.drain())), [
    { id: digest128(JSON.stringify(names)), prices: '' },
  ])
})
