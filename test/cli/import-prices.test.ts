import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { parse } from 'yaml'
import { runAt } from '../support/command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Runs the command on a file with this list. */
function importing(t: Test, list: unknown, env: NodeJS.ProcessEnv = {}) {
  const file = join(temporaryFolder(t), 'prices.json')
  writeFileSync(file, typeof list === 'string' ? list : JSON.stringify(list))
  return (...models: string[]) => runAt({ env }, 'prices', 'import', file, ...models)
}

const litellm = {
  sample_spec: { input_cost_per_token: 0, output_cost_per_token: 0 },
  plain: {
    ...{ input_cost_per_token: 2.5e-6, output_cost_per_token: 1e-5, mode: 'chat' },
    ...{ cache_read_input_token_cost: 1.25e-6, cache_creation_input_token_cost: 0 },
    ...{ output_cost_per_reasoning_token: 1e-5, input_cost_per_request: 0.01 },
  },
  tiered: {
    ...{ input_cost_per_token: 3e-6, output_cost_per_token: 1.5e-5 },
    ...{ input_cost_per_token_above_200k_tokens: 6e-6, input_cost_per_audio_token: 4e-6 },
    ...{ search_context_cost_per_query: { high: 0.01 }, tiered_pricing: [{ range: [0, 9] }] },
    ...{ output_cost_per_image: 0, regional_cost: [], search_cost: { low: 0 } },
    cache_creation_input_token_cost_above_1hr: 6e-6,
    ...{ provider_specific_entry: { us: 1.1 }, regional_uplift_multiplier_eu: 1.1 },
  },
  picture: { output_cost_per_image: 0.06, mode: 'image_generation' },
  __proto__: { input_cost_per_token: 1 },
}

test("LiteLLM's prices are billingRates", async (t) => {
  const run = importing(t, litellm)
  const { status, out, err } = await run()
  t.equal(status, 1)
  t.strictSame(parse(out), {
    plain: {
      billingRate: {
        ...{ perInputToken: '0.0000025', perOutputToken: '0.00001', perCachedToken: '0.00000125' },
        ...{ perCacheWriteToken: '0', perRequest: '0.01' },
      },
    },
    tiered: { billingRate: { perInputToken: '0.000003', perOutputToken: '0.000015' } },
  })
  t.strictSame(err.split('\n'), [
    'tiered: not imported: input_cost_per_token_above_200k_tokens: 0.000006',
    'tiered: not imported: input_cost_per_audio_token: 0.000004',
    'tiered: not imported: search_context_cost_per_query: {"high":0.01}',
    'tiered: not imported: tiered_pricing: [{"range":[0,9]}]',
    'tiered: not imported: cache_creation_input_token_cost_above_1hr: 0.000006',
    'tiered: not imported: provider_specific_entry: {"us":1.1}',
    'tiered: not imported: regional_uplift_multiplier_eu: 1.1',
    'picture: not imported: no price of input and output',
    'picture: not imported: output_cost_per_image: 0.06',
    '2 models with prices; 2 with prices that were not imported',
  ])
  t.match(out, /^# not imported: input_cost_per_token_above_200k_tokens: 0\.000006$/m)
  t.match(await run('plain'), {
    status: 0,
    err: '1 model with prices; 0 with prices that were not imported',
  })
  t.match(await run('plain', 'none'), { status: 1, err: /^none: not in the list$/m })
  t.match(JSON.parse((await run('plain', '--json')).out), { models: [{ model: 'plain' }] })
})

test("OpenRouter's prices are, too", async (t) => {
  const run = importing(t, {
    data: [
      {
        id: 'a/b:free',
        pricing: { prompt: '0', completion: '0', image: '0', internal_reasoning: '0' },
      },
      {
        id: 'a/c',
        pricing: {
          ...{ prompt: '0.0000001', completion: '0.0000004', request: '0.02', image: '0.001' },
          ...{ input_cache_read: '0.00000001', input_cache_write: '0.00000008333333333333334' },
        },
      },
      { id: 'a/auto', pricing: { prompt: '-1', completion: '-1' } },
      { id: 7, pricing: {} },
    ],
  })
  const { status, out, err } = await run()
  t.equal(status, 1)
  t.strictSame(parse(out), {
    'a/b:free': { billingRate: { perInputToken: '0', perOutputToken: '0' } },
    'a/c': {
      billingRate: {
        ...{ perInputToken: '0.0000001', perOutputToken: '0.0000004', perRequest: '0.02' },
        ...{ perCachedToken: '0.00000001', perCacheWriteToken: '0.00000008333333333333334' },
      },
    },
  })
  t.match(err, /^a\/c: not imported: image: "0\.001"$/m)
  t.match(err, /^a\/auto: not imported: prompt: "-1"$/m)
  t.equal((await run('a/b:free')).status, 0, 'nothing costs nothing')
})

test('odd lists do not spoil the output', async (t) => {
  const price = { prompt: '1', completion: '2' }
  const { status, out, err } = await importing(t, {
    data: [
      { id: '<<', pricing: price },
      { id: 'a', pricing: price },
      { id: 'b', pricing: price },
      { id: 'a', pricing: { ...price, completion: '3' } },
    ],
  })()
  t.equal(status, 1)
  t.match(parse(out, { merge: true }), { '<<': { billingRate: {} }, b: { billingRate: {} } })
  t.notMatch(out, /^a:/m)
  t.match(err, /^a: not imported: the list has several models of this id$/m)
  const infinite = '{"m":{"input_cost_per_token":1e400,"output_cost_per_token":1}}'
  t.match(await importing(t, infinite)(), {
    status: 1,
    out: '',
    err: /^m: not imported: input_cost_per_token: Infinity$/m,
  })
})

test('what is no list of prices in USD is refused', async (t) => {
  t.match(await importing(t, litellm, { BILLING_CURRENCY: 'EUR' })(), {
    status: 1,
    out: '',
    err: /The prices are in USD, and BILLING_CURRENCY is EUR/,
  })
  for (const other of ['no JSON', [], {}, { models: 1 }]) {
    t.match(await importing(t, other)(), { status: 1, out: '', err: /is (not JSON|neither)/ })
  }
})

test('reads a file with a byte-order mark', async (t) => {
  const list = `\ufeff${JSON.stringify({ plain: litellm.plain })}`
  t.match(await importing(t, list)(), { status: 0, out: /^plain:/ })
})
