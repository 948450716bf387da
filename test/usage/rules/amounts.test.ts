import { test } from 'tap'
import { maxExactInt } from '../../../src/formats/exact.ts'
import {
  amountOf,
  chargeParts,
  costInNano,
  isCharged,
  weightedTokens,
} from '../../../src/usage/rules/amounts.ts'
import { chargeOf, type Usage } from '../../../src/usage/rules/usage.ts'
import { createRandom } from '../../support/random.ts'

const most = Number.MAX_SAFE_INTEGER

function usageOf(fields: Readonly<Record<string, unknown>>, more: Partial<Usage> = {}): Usage {
  const reported = new Map(Object.entries(fields))
  return {
    user: 'ada',
    subscription: 'team-a',
    model: 'llm/small',
    status: 200,
    reported,
    bytes: 100,
    ...more,
  }
}

function partsOf(fields: Readonly<Record<string, unknown>>, more: Partial<Usage> = {}) {
  const usage = usageOf(fields, more)
  const { input, cached, cacheWrite, output } = chargeParts(usage, chargeOf(usage, 'estimate'))
  return [input, cached, cacheWrite, output]
}

test('both dialects have the same parts for one use', async (t) => {
  const parts = [10, 70, 20, 5]
  const openai = { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105 }
  const details = { details_cached_tokens: 70, details_cache_write_tokens: 20 }
  const caches = { cache_read_input_tokens: 70, cache_creation_input_tokens: 20 }
  const message = { input_tokens: 10, output_tokens: 5, ...caches }
  const start = Object.fromEntries(Object.entries(message).map(([k, v]) => [`start_${k}`, v]))
  for (const [name, fields] of Object.entries({
    openai: { ...openai, ...details },
    'with reasoning, which is output': { ...openai, ...details, details_reasoning_tokens: 4 },
    'with both names': { ...openai, ...details, ...caches },
    "with Anthropic's names within the prompt": { ...openai, ...caches },
    "with Anthropic's names beside the prompt": { ...openai, ...caches, prompt_tokens: 10 },
    'without a total': { ...caches, prompt_tokens: 10, completion_tokens: 5 },
    message,
    'a stream': { ...start, start_output_tokens: 1, output_tokens: 5 },
  })) {
    t.strictSame(partsOf(fields), parts, name)
  }
})

test('what a total has beside its parts is output', async (t) => {
  t.strictSame(partsOf({ total_tokens: 40 }), [0, 0, 0, 40])
  t.strictSame(
    partsOf({ total_tokens: 40, prompt_tokens: 10, completion_tokens: 5 }),
    [10, 0, 0, 30],
  )
  t.strictSame(partsOf({ total_tokens: 40, prompt_tokens: 10 }), [10, 0, 0, 30])
})

test('a total below its parts is output first', async (t) => {
  const hostile = { prompt_tokens: 100, completion_tokens: 8, details_cached_tokens: 100 }
  t.strictSame(partsOf({ ...hostile, total_tokens: 10 }), [0, 2, 0, 8])
  t.strictSame(
    partsOf({ ...hostile, details_cache_write_tokens: 1, total_tokens: 10 }),
    [0, 1, 1, 8],
  )
  t.strictSame(partsOf({ ...hostile, total_tokens: 3 }), [0, 0, 0, 3])
})

test('an estimate has the parts that it was made of', async (t) => {
  const estimate = { input: 30, bytesPerToken: 4 }
  t.strictSame(partsOf({}, { estimate }), [30, 0, 0, 25])
  t.strictSame(partsOf({ prompt_tokens: 12 }, { estimate }), [12, 0, 0, 25])
  t.strictSame(partsOf({}, { estimate, status: 0, hasLeft: true }), [30, 0, 0, 0], 'a client left')
  const start = { start_input_tokens: 9, start_cache_read_input_tokens: 3, start_output_tokens: 1 }
  t.strictSame(partsOf(start, { estimate }), [9, 3, 0, 25], 'a stream that broke off')
  t.strictSame(partsOf({}), [0, 0, 0, 25], 'by its length alone')
  t.strictSame(partsOf({}, { status: 500 }), [0, 0, 0, 0])
})

test('parts add up to the charge, whatever a model reports', async (t) => {
  const random = createRandom()
  t.comment(`SEED=${random.seed}`)
  const names = [
    ...['total_tokens', 'prompt_tokens', 'completion_tokens', 'input_tokens', 'output_tokens'],
    ...['details_cached_tokens', 'details_cache_write_tokens', 'details_reasoning_tokens'],
    ...['cache_creation_input_tokens', 'cache_read_input_tokens'],
    ...['start_input_tokens', 'start_output_tokens', 'start_cache_read_input_tokens'],
  ]
  const figures = [0, 1, 2, 7, 100, 1_000, 2 ** 31, most, most - 1, -1, 0.5, '12', null, 1e300]
  const pick = <Value>(values: readonly Value[]) => values[random.below(values.length)]
  const isTold = (percent: number) => random.below(100) < percent
  for (let round = 0; round < 20_000; round += 1) {
    const chosen = names.filter(() => isTold(40))
    const fields = Object.fromEntries(chosen.map((name) => [name, pick(figures)]))
    const estimate = { input: pick([0, 5, 1e15]) ?? 0, bytesPerToken: pick([0, 4]) ?? 0 }
    const usage = usageOf(fields, {
      bytes: pick([0, 3, 5_000]) ?? 0,
      status: pick([200, 200, 500, 0]) ?? 200,
      hasLeft: isTold(20),
      hasCostLimit: isTold(50),
      ...(isTold(50) && { estimate }),
    })
    const charge = chargeOf(usage, isTold(50) ? 'allow' : 'estimate')
    const { input, cached, cacheWrite, output } = chargeParts(usage, charge)
    const all = [input, cached, cacheWrite, output]
    const isFine = all.every((each) => Number.isInteger(each) && each >= 0)
    const sum = all.reduce((one, other) => one + other)
    if (!isFine || sum !== (charge.tokens ?? 0)) {
      t.fail(JSON.stringify({ fields, charge, all }))
      return
    }
  }
  t.pass()
})

test("a kind without a price costs its parent's", async (t) => {
  const parts = { input: 1, cached: 10, cacheWrite: 100, output: 1_000, isWhole: false }
  for (const [prices, nano] of [
    ['token=0.000000001', 1_111],
    ['token=0.000000001&output=0.000000002', 2_111],
    ['token=0.000000001&input=0.000000003', 1_333],
    ['input=0.000000003&output=0.000000001&cached=0', 1_303],
    ['input=0.000000003&output=0.000000001&write=0.000000004', 1_433],
    ['token=0&cached=0.000000001', 10],
    ['token=0', 0],
    ['token=0&request=0.05', 50_000_000],
    ['token=nothing&output=-1&input=1e3&other', 0],
    ['', 0],
  ] as const) {
    t.equal(costInNano(parts, prices), nano, prices)
  }
})

test('a cost is exact and rounded up once', async (t) => {
  const parts = { input: 1, cached: 1, cacheWrite: 1, output: 1, isWhole: false }
  t.equal(costInNano(parts, 'token=0.0000000001'), 1)
  t.equal(costInNano(parts, 'token=0.00000000025'), 1, 'nothing is rounded that is whole')
  t.equal(costInNano(parts, 'token=0.000000000250000000000001'), 2)
  t.equal(costInNano(parts, 'token=0&request=0.000000000000000000000001'), 1)
  t.equal(costInNano(parts, 'token=0.000002'), 8_000)
  t.equal(costInNano({ ...parts, output: most }, 'token=0.000000001'), BigInt(most) + 3n)
  t.equal(costInNano({ ...parts, output: most }, 'token=999999999999'), maxExactInt)
})

test('weights add up before they are rounded', async (t) => {
  const parts = { input: 1, cached: 15, cacheWrite: 1, output: 3, isWhole: false }
  t.equal(weightedTokens(parts, undefined), 20)
  t.equal(weightedTokens(parts, ''), 20)
  t.equal(weightedTokens(parts, 'cached=100'), 7, '1 + 1.5 + 1 + 3')
  t.equal(weightedTokens(parts, 'cached=100&write=1250&output=4000'), 16, '1 + 1.5 + 1.25 + 12')
  t.equal(weightedTokens(parts, 'cached=0&write=0&output=0'), 1)
  t.equal(weightedTokens({ ...parts, isWhole: true }, 'output=4000'), 20, 'no split')
  t.equal(weightedTokens({ ...parts, output: most }, 'output=100000'), most)
})

test('each kind of limit has its amount', async (t) => {
  const prices = 'token=0.000001&cached=0.0000001&request=0.001'
  const fields = { prompt_tokens: 100, completion_tokens: 10, details_cached_tokens: 60 }
  const usage = usageOf(fields, { prices, weights: 'cached=500' })
  const charge = chargeOf(usage, 'allow')
  const amounts = (one: Usage, of = chargeOf(one, 'allow')) =>
    (['tokens', 'input', 'output', 'requests', 'concurrency', 'cost'] as const).map((kind) =>
      amountOf(kind, one, of),
    )
  t.strictSame(amounts(usage, charge), [80, 100, 10, 1, 0, 1_056_000])
  t.strictSame(amounts({ ...usage, status: 500 }), [0, 0, 0, 1, 0, 0], 'a failure costs nothing')
  t.strictSame(amounts(usageOf({}, { prices })), [0, 0, 0, 1, 0, 1_000_000], 'its request does')
  t.equal(isCharged(usage, charge), true)
})

test('under an enforced limit of cost nothing is free', async (t) => {
  const usage = usageOf({})
  t.equal(chargeOf(usage, 'allow').tokens, undefined)
  t.equal(chargeOf({ ...usage, hasCostLimit: true }, 'allow').tokens, 25)
  t.equal(chargeOf({ ...usage, hasCostLimit: true, status: 503 }, 'allow').tokens, undefined)
  const estimate = { input: 30, bytesPerToken: 4 }
  for (const zeros of [
    { total_tokens: 0 },
    { total_tokens: 0, prompt_tokens: 0, completion_tokens: 0 },
    { input_tokens: 0, output_tokens: 0 },
  ]) {
    const reported = usageOf(zeros)
    t.equal(chargeOf(reported, 'estimate').tokens, 0)
    const charge = chargeOf({ ...reported, hasCostLimit: true, estimate }, 'allow')
    t.strictSame(
      charge,
      { tokens: 55, unusable: true, estimated: 55 },
      'a report of nothing is none',
    )
    t.equal(chargeOf({ ...reported, hasCostLimit: true }, 'allow').tokens, 25)
  }
})
