import { mkdtempSync } from 'node:fs'
import http2 from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { chargeOf } from '../../src/usage/rules/usage.ts'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { highestResidentMiB } from '../support/envoy-load.ts'
import {
  type Answer,
  endAtOnce,
  type Gateway,
  gatewayTests,
  meter,
  models,
} from '../support/gateway.ts'
import { startGreedyModel } from '../support/greedy-model.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { runStreams } from '../support/stream-load.ts'
import { readJournal } from '../support/window-accounts.ts'

const team = { groups: ['team'] }
const limit = 5_000
/** Of windows of seconds, and the words of their answers. */
const short = { limit: 2_500, words: [100, 300] } as const
const reserving = { admission: { mode: 'reserve', overshootPercent: 25 } }
const counting = { admission: { mode: 'count' } }
const greedy = await startGreedyModel()
const journal = join(mkdtempSync(join(tmpdir(), 'reservations-')), 'usage.jsonl')
/** What the requests of one window may use. */
const ofGreedy = { limit: 10_000, bound: 12_500 }
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl),
    modelRef('older', { backendUrl, output: { maxTokensField: 'max_tokens' } }),
    accessPolicy('older', ['llm/older'], team),
    modelRef('greedy', { backendUrl: greedy.url }),
    modelRef('bounded', { backendUrl: greedy.url, output: { maxTokens: 9_500 } }),
    modelRef('deaf', { backendUrl: greedy.url, output: { honoursMaxTokens: false } }),
    accessPolicy('greedy', ['llm/greedy', 'llm/bounded', 'llm/deaf'], team),
    subscription(
      'greedy',
      team,
      Object.fromEntries(
        ['greedy', 'bounded', 'deaf'].map((name) => [`llm/${name}`, [[ofGreedy.limit, '1h']]]),
      ),
      reserving,
    ),
    subscription('older', team, { 'llm/older': [[20_000, '1h']] }, reserving),
    subscription('older-counts', team, { 'llm/older': [[20_000, '1h']] }, counting),
    // By the settings.
    subscription('wide', team, { 'llm/sim': [[20_000, '1h']] }),
    subscription('reserves', team, { 'llm/sim': [[limit, '1h']] }, reserving),
    subscription('large', team, { 'llm/sim': [[10_000_000, '1h']] }, reserving),
    subscription('counts', team, { 'llm/sim': [[limit, '1h']] }, counting),
    subscription(
      'taken',
      team,
      { 'llm/sim': [[limit, '1h']] },
      {
        ...reserving,
        ofModels: { requestRateLimits: [{ limit: 10, window: '1h' }], concurrency: 1 },
      },
    ),
    subscription('short', team, { 'llm/sim': [[short.limit, '5s']] }, reserving),
    subscription('short-counts', team, { 'llm/sim': [[short.limit, '5s']] }, counting),
    meter,
  ],
  env: {
    METER_PATHS: 'chat,messages,responses,completions',
    ADMISSION_MODE: 'reserve',
    USAGE_JOURNAL: journal,
  },
  adjustEnvoy: (bootstrap) =>
    endAtOnce(bootstrap).replace(/("access_log_flush_interval":\s*)"10s"/, '$1"0.2s"'),
})

const path = '/llm/sim/v1/chat/completions'
const shared = '/v1/chat/completions'

/** The body as the model's server has received it. */
function received({ text }: Answer): Record<string, unknown> {
  return JSON.parse(JSON.parse(text).sim_echo.body)
}

const ask = (gateway: Gateway, key: string, fields: object, at = path) =>
  gateway.chat(key, { words: 5, echo: true }, fields, at)

test('a request without a maximum gets a ceiling', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const at of [path, shared]) {
    const answer = await ask(gateway, key, {}, at)
    const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
    t.ok(ceiling >= 1_000 && ceiling <= 25_000, `${at}: ${ceiling}`)
    t.equal(received(answer).max_completion_tokens, ceiling, at)
    t.notMatch(answer.text, /x-tollgate-(size|ceiling)/)
    await gateway.settled()
  }
})

test('a lower maximum stays as it is, a higher one is lowered', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const at of [path, shared]) {
    const low = await ask(gateway, key, { max_tokens: 50 }, at)
    t.match(received(low), { max_tokens: 50, max_completion_tokens: undefined }, at)
    await gateway.settled()
    for (const high of [9_000_000, '9000000', 9e6 + 0.5, null]) {
      const answer = await ask(gateway, key, { max_tokens: high }, at)
      const own = received(answer).max_tokens
      t.equal(own, Number(answer.headers.get('x-tollgate-max-output-tokens')), `${at}: ${high}`)
      await gateway.settled()
    }
  }
})

test('several answers share a ceiling', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const one = received(await ask(gateway, key, {})).max_completion_tokens as number
  await gateway.settled()
  for (const n of [4, '4', 4.0]) {
    const own = received(await ask(gateway, key, { n })).max_completion_tokens as number
    t.ok(own < one && 4 * own <= 25_000, `${own} of ${one} for each of ${n}`)
    await gateway.settled()
  }
})

test('other operations have their own fields', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const bodies = {
    '/v1/messages': ['max_tokens', { messages: [{ role: 'user', content: 'Hi' }] }],
    '/v1/responses': ['max_output_tokens', { input: 'Hi' }],
    '/v1/completions': ['max_tokens', { prompt: 'Hi' }],
  } as const
  for (const [operation, [field, body]] of Object.entries(bodies)) {
    for (const at of [`/llm/sim${operation}`, operation]) {
      const sim = { words: 5, echo: true }
      const answer = await gateway.ask(at, key, {
        method: 'POST',
        body: JSON.stringify({ model: 'sim', ...body, [field]: 9_000_000, sim }),
      })
      t.equal(answer.status, 200, `${at}: ${answer.text}`)
      const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
      t.ok(ceiling > 0 && ceiling < 9_000_000, `${at}: ${ceiling}`)
      t.equal(received(answer)[field], ceiling, at)
      await gateway.settled()
    }
  }
})

test('fields that only some servers read are refused with a ceiling', async (t, gateway) => {
  const [{ key }, counting] = await Promise.all([
    gateway.mint({ subscription: 'wide' }),
    gateway.mint({ subscription: 'counts' }),
  ])
  t.equal((await ask(gateway, key, { Max_Tokens: 9_000_000 })).status, 400)
  t.equal((await ask(gateway, counting.key, { Max_Tokens: 9_000_000 })).status, 200)
})

test('no spelling hides a higher maximum', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const fields of [
    { max_tokens: 5, Max_Tokens: 9_000_000 },
    { max_tokens: 5, maxCompletionTokens: 9_000_000 },
    { max_tokens: 5, 'max-tokens': 9_000_000 },
    { max_tokens: 5, n_: 9_000 },
    { max_tokens: 5, N: 9_000 },
    { max_tokens: 5, n: ' 9 ' },
    { max_tokens: 5, n: '1_0' },
    { max_tokens: 5, n: true },
    { max_tokens: 5, best_of: [9] },
  ]) {
    for (const at of [path, shared]) {
      const { status, text } = await ask(gateway, key, fields, at)
      t.equal(status, 400, `${at} ${JSON.stringify(fields)}: ${text}`)
      await gateway.settled()
    }
  }
  for (const extra of [
    ...[{ n: 9 }, { N: 9 }, { max_tokens: 9e6 }, { max_completion_tokens: 9 }, { n_predict: 9 }],
    ...[{ best_of: 9 }, { min_tokens: 9 }, { thinking: { budget_tokens: 9 } }, { prompt: ['a'] }],
  ]) {
    for (const at of [path, shared]) {
      const { status, text } = await ask(gateway, key, { max_tokens: 5, extra_body: extra }, at)
      t.equal(status, 400, `${at} ${JSON.stringify(extra)}: ${text}`)
      t.match(text, /extra_body must not have/)
    }
  }
  for (const at of [path, shared]) {
    const dropped = { max_tokens: 5, additional_drop_params: ['max_tokens'] }
    t.match((await ask(gateway, key, dropped, at)).text, /additional_drop_params may leave out/)
    const none = { max_tokens: 5, additional_drop_params: [], extra_body: { n: null, top_k: 5 } }
    t.equal((await ask(gateway, key, none, at)).status, 200)
    await gateway.settled()
  }
  // llama.cpp reads n_predict before max_tokens, and n_cmpl before n.
  for (const at of [path, shared]) {
    const answer = await ask(gateway, key, { max_tokens: 5, n_predict: 9_000_000 }, at)
    const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
    t.match(received(answer), { max_tokens: 5, n_predict: ceiling }, at)
    await gateway.settled()
    const body = received(await ask(gateway, key, { n_predict: -1, n_cmpl: 3 }, at))
    t.equal(body.n_predict, body.max_completion_tokens, at)
    t.ok(3 * (body.n_predict as number) <= 25_000, at)
    await gateway.settled()
  }
})

test('a maximum that is read before the one of the operation is lowered', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  // As by llama.cpp.
  for (const operation of ['/v1/completions', '/v1/responses']) {
    for (const at of [`/llm/sim${operation}`, operation]) {
      const body = { model: 'sim', prompt: 'a', input: 'a', max_completion_tokens: 9_000_000 }
      const sim = { words: 5, echo: true }
      const init = { method: 'POST', body: JSON.stringify({ ...body, sim }) }
      const answer = await gateway.ask(at, key, init)
      const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
      const own = operation === '/v1/responses' ? 'max_output_tokens' : 'max_tokens'
      t.match(received(answer), { max_completion_tokens: ceiling, [own]: ceiling }, at)
      await gateway.settled()
    }
  }
})

test('a maximum that not all servers read is not relied upon', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  for (const at of [path, shared]) {
    const answer = await ask(gateway, key, { n_predict: 1, max_output_tokens: 1 }, at)
    const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
    t.ok(ceiling > 1, `${at}: ${ceiling}`)
    t.equal(received(answer).max_completion_tokens, ceiling, at)
    await gateway.settled()
  }
})

test('a server that reads only max_tokens is sent it', async (t, gateway) => {
  const [{ key }, counted] = await Promise.all([
    gateway.mint({ subscription: 'older' }),
    gateway.mint({ subscription: 'older-counts' }),
  ])
  for (const at of ['/llm/older/v1/chat/completions', shared]) {
    const send = async (fields: object, by = key) => {
      const answer = await ask(gateway, by, { model: 'older', ...fields }, at)
      t.equal(answer.status, 200, answer.text)
      const { max_tokens, max_completion_tokens } = received(answer)
      await gateway.settled()
      const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
      return [ceiling, max_tokens, max_completion_tokens]
    }
    for (const fields of [{}, { max_tokens: 9_000_000 }, { max_tokens: null }]) {
      const [ceiling, own, other] = await send(fields)
      t.ok(Number(ceiling) >= 1_000, `${at}: ${ceiling}`)
      t.same([own, other], [ceiling, undefined], at)
    }
    const [ceiling, ...both] = await send({ max_completion_tokens: 9_000_000 })
    t.same(both, [ceiling, ceiling], at)
    t.same((await send({ max_completion_tokens: 5 })).slice(1), [5, 5], at)
    t.same((await send({ max_completion_tokens: 5, max_tokens: 7 })).slice(1), [7, 5], at)
    t.same(await send({ max_completion_tokens: 5 }, counted.key), [0, 5, 5], at)
    t.same(await send({ max_completion_tokens: 1e20 }, counted.key), [0, 1e12, 1e20], at)
    t.same(await send({ max_completion_tokens: 'x' }, counted.key), [0, undefined, 'x'], at)
    t.same(await send({}, counted.key), [0, undefined, undefined], at)
  }
})

test('a long body with many changes takes no more memory than with one', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'large' })
  const x = 'x'.repeat(30 * 2 ** 20)
  const most = async (fields: object) => {
    const { status, text } = await gateway.chat(key, { words: 1 }, { ...fields, x })
    t.equal(status, 200, text.slice(0, 200))
    await gateway.settled()
    return highestResidentMiB(gateway.envoy.pid)
  }
  const max = 1e12
  const one = await most({ max_tokens: max })
  const many = await most({
    ...{ stream: true, stream_options: { include_usage: false } },
    ...{ max_tokens: max, max_completion_tokens: max, max_output_tokens: max, n_predict: max },
  })
  t.ok(many - one < 100, `${one.toFixed(0)} MiB with one, ${many.toFixed(0)} with five`)
})

test('a field of null stays if another has the maximum', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const fields = { max_tokens: null, max_completion_tokens: 9_000_000 }
  const body = received(await ask(gateway, key, fields))
  t.equal(body.max_tokens, null)
  t.ok((body.max_completion_tokens as number) < 9_000_000)
  await gateway.settled()
})

test('the answers to several prompts share a ceiling', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const complete = async (at: string, fields: object) => {
    const body = JSON.stringify({ model: 'sim', ...fields, sim: { words: 5, echo: true } })
    const answer = await gateway.ask(at, key, { method: 'POST', body })
    t.equal(answer.status, 200, answer.text)
    await gateway.settled()
    return answer
  }
  const fifty = (item: unknown) => Array.from({ length: 50 }, () => item)
  const lists = ['a', 'a"', '', [1, 2, 3], ['a'], { a: 1 }, 'x'.repeat(3_000)].map(fifty)
  const single = [fifty(7), fifty(7).concat(['a']), 'a', ['a'], [[1, 2]]]
  const pinned = '/llm/sim/v1/completions'
  const isSharedBy = async (count: number, prompt: unknown) => {
    const answer = await complete(pinned, { max_tokens: 9_000_000, prompt })
    const ceiling = Number(answer.headers.get('x-tollgate-max-output-tokens'))
    const title = JSON.stringify(prompt).slice(0, 40)
    t.equal(received(answer).max_tokens, ceiling, title)
    t.ok(count * ceiling <= 25_000, `${title}: ${ceiling} for each of ${count}`)
    t.ok(ceiling > (count > 1 ? 20 : 1_000), `${title}: only ${ceiling}`)
  }
  for (const prompt of lists) await isSharedBy(50, prompt)
  for (const prompt of single) await isSharedBy(1, prompt)
  // On shared paths the hold knows the number, too.
  const leftOf = async (prompt: unknown) => {
    const { headers } = await complete('/v1/completions', { max_tokens: 100, prompt })
    return Number(headers.get('x-ratelimit-remaining-tokens'))
  }
  // vLLM answers each of these, too.
  const embeds = { prompt: 'a', prompt_embeds: fifty('a'), max_tokens: 9_000_000 }
  const many = await complete(pinned, embeds)
  const ceiling = Number(many.headers.get('x-tollgate-max-output-tokens'))
  t.equal(received(many).max_tokens, ceiling)
  t.ok(51 * ceiling <= 25_000, `${ceiling} for each of 51`)
  for (const prompt of lists.slice(0, 4)) {
    const one = await leftOf('a')
    const many = await leftOf(prompt)
    t.ok(one - many > 300, `${one} are left with one prompt, ${many} with fifty`)
  }
})

/**
 * One request of a new user, or of a key once its earlier ones have been counted; a string is the text of further
 * members.
 */
async function askGreedy(
  gateway: Gateway,
  at: string,
  fields: object | string,
  { model = 'greedy', key }: { model?: string; key?: string } = {},
) {
  const by = key ?? (await gateway.mint({ subscription: 'greedy' })).key
  const own = typeof fields === 'string' ? fields : JSON.stringify(fields).slice(1, -1)
  const input =
    '"messages":[{"role":"user","content":"Hi"}],"input":"Hi","max_tokens_of_no_server":1'
  const body = `{"model":"${model}",${input}${own === '' ? '' : `,${own}`}}`
  if (key !== undefined) await gateway.settled()
  const before = greedy.answered.length
  const answer = await gateway.ask(at, by, { method: 'POST', body })
  const made = greedy.answered.slice(before)
  return { ...answer, key: by, made: made[0], tokens: made[0]?.totalTokens ?? 0 }
}

test('one request never passes its room, however many answers it asks for', async (t, gateway) => {
  const some = (count: number) => Array.from({ length: count }, () => 'a')
  const forms: readonly (readonly [object | string, number, string?])[] = [
    ['"n":128', 200],
    ['"n":1.28e2', 200],
    ['"n":128.0', 200],
    ['"n":"128"', 200],
    ['"n":null', 200],
    [{ best_of: 128 }, 200],
    [{ n_cmpl: 128, n: 2 }, 200],
    [{ candidate_count: 128 }, 200],
    [{ num_return_sequences: 128 }, 200],
    [{ n: 1_000, max_tokens: 900, max_completion_tokens: 900 }, 200],
    [{ n: 12_000 }, 200],
    [{ n: 13_000 }, 400],
    [{ n: 1e6 }, 400],
    [{ n: 1e9 }, 400],
    ['"n":"1e999"', 400],
    [{ N: 100 }, 400],
    [{ candidateCount: 100 }, 400],
    ['"n":1,"n":100', 400],
    ['"n":[100]', 400],
    [{ prompt: some(100) }, 200, '/v1/completions'],
    [{ prompt: some(100), n: 20, max_tokens: 900 }, 200, '/v1/completions'],
    [{ prompt: some(12_600) }, 400, '/v1/completions'],
    [{ prompt: some(100), n: 500 }, 400, '/v1/completions'],
    [{ n: 128 }, 200, '/v1/responses'],
    [{ n: 128, max_tokens: 90_000 }, 200, '/v1/messages'],
  ]
  for (const [fields, status, operation = shared] of forms) {
    for (const model of ['greedy', 'bounded']) {
      for (const at of [operation, `/llm/${model}${operation}`]) {
        const title = `${at} ${model} ${JSON.stringify(fields).slice(0, 60)}`
        const answer = await askGreedy(gateway, at, fields, { model })
        t.equal(answer.status, status, `${title}: ${answer.text.slice(0, 200)}`)
        const { tokens } = answer
        t.ok(tokens <= ofGreedy.bound, `${title}: ${tokens} tokens`)
        if (status === 200) t.ok(tokens >= 3_000, `${title}: only ${tokens}`)
        else t.match(answer.text, /"The request body is refused: /)
      }
    }
  }
})

test('what does not fit now is refused for now', async (t, gateway) => {
  for (const at of ['/v1/messages', '/llm/greedy/v1/messages']) {
    const used = await askGreedy(gateway, at, { max_tokens: 3_000, n: 3 })
    t.equal(used.status, 200, used.text)
    const { key } = used
    const several = await askGreedy(gateway, at, { max_tokens: 1, n: 4_000 }, { key })
    t.match(several, { status: 429, tokens: 0 }, `${at}: ${several.text}`)
    t.match(several.text, /asks for at least 4000 tokens of output, more than is left/)
    const wait = Number(several.headers.get('retry-after'))
    t.ok(wait > 60 && wait <= 3_600, `${wait} s until the window ends`)
    const fits = await askGreedy(gateway, at, { max_tokens: 30, n: 100 }, { key })
    t.match(fits, { status: 200, made: { each: 30 } }, fits.text)
  }
})

test('a lowered maximum stays above the minima of its request', async (t, gateway) => {
  const thinking = (budget_tokens: unknown) => ({ thinking: { type: 'enabled', budget_tokens } })
  const cases: readonly (readonly [object, least: number, operation?: string])[] = [
    [{ ...thinking(4_000), max_tokens: 32_000 }, 4_001],
    [{ ...thinking(8_000), max_tokens: 32_000, n: 1 }, 8_001],
    [{ ...thinking(5e3), max_completion_tokens: 32_000 }, 5_001, shared],
    [{ reasoning: { max_tokens: 6_000 }, max_tokens: 32_000 }, 6_001, shared],
    [{ min_tokens: 9_000 }, 9_000, shared],
    [{ min_tokens: 3_000, n: 3 }, 3_000, shared],
    [{ min_tokens: '4000', max_tokens: 90_000 }, 4_000, '/v1/completions'],
    [{ min_tokens: 4_000, max_output_tokens: 90_000 }, 4_000, '/v1/responses'],
  ]
  const never: readonly (readonly [object, string?])[] = [
    [{ ...thinking(16_000), max_tokens: 32_000 }],
    [thinking(16_000)],
    [{ min_tokens: 16_000 }, shared],
    [{ min_tokens: 3_000, n: 5 }, shared],
  ]
  for (const prefix of ['', '/llm/greedy']) {
    for (const [fields, least, operation = '/v1/messages'] of cases) {
      const title = `${prefix}${operation} ${JSON.stringify(fields)}`
      const { status, made, text, tokens } = await askGreedy(gateway, prefix + operation, fields)
      t.equal(status, 200, `${title}: ${text}`)
      t.ok(made && made.each >= least && tokens <= ofGreedy.bound, `${title}: ${made?.each}`)
      t.match(made?.body.thinking, (fields as { thinking?: object }).thinking)
    }
    for (const [fields, operation = '/v1/messages'] of never) {
      const { status, text } = await askGreedy(gateway, prefix + operation, fields)
      t.equal(status, 400, `${prefix}${operation} ${JSON.stringify(fields)}: ${text}`)
      t.match(text, /needs? \d+ tokens of output at least, by thinking.budget_tokens or min_tokens/)
    }
    // Interleaved thinking may have more than the maximum.
    const own = { ...thinking(16_000), max_tokens: 2_000 }
    t.match(await askGreedy(gateway, `${prefix}/v1/messages`, own), { made: { each: 2_000 } })
    const { key } = await askGreedy(gateway, `${prefix}/v1/messages`, { max_tokens: 3_000, n: 3 })
    const later = { ...thinking(2_000), max_tokens: 32_000, n: 2 }
    const refused = await askGreedy(gateway, `${prefix}/v1/messages`, later, { key })
    t.match(refused, { status: 429, tokens: 0 }, refused.text)
  }
})

test('a window of requests that ask for many answers stays within the bound', async (t, gateway) => {
  for (const model of ['greedy', 'bounded']) {
    for (const at of [shared, `/llm/${model}${shared}`]) {
      const { key } = await gateway.mint({ subscription: 'greedy' })
      const fields = JSON.stringify({ model, messages: [], n: 100 })
      const before = greedy.answered.length
      for (let round = 0; round < 2; round += 1) {
        await Promise.all(
          Array.from({ length: 10 }, () => gateway.ask(at, key, { method: 'POST', body: fields })),
        )
      }
      const tokens = greedy.answered.slice(before).reduce((sum, each) => sum + each.totalTokens, 0)
      t.ok(tokens > ofGreedy.limit / 2 && tokens <= ofGreedy.bound, `${at} ${model}: ${tokens}`)
      await gateway.settled()
    }
  }
})

test('a name that only some servers read is refused wherever it reserves', async (t, gateway) => {
  for (const model of ['greedy', 'bounded', 'deaf']) {
    for (const at of [shared, `/llm/${model}${shared}`]) {
      for (const fields of [{ N: 100 }, { n: true }, { max_tokens: 5, Best_Of: 9 }]) {
        const { status, text } = await askGreedy(gateway, at, fields, { model })
        t.equal(status, 400, `${at} ${model} ${JSON.stringify(fields)}`)
        t.match(text, /must be spelled exactly (n|best_of)|n must be a number/)
      }
    }
  }
})

test('more answers than a ceiling has tokens are refused', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'wide' })
  const complete = (at: string, fields: object) =>
    gateway.ask(at, key, {
      method: 'POST',
      body: JSON.stringify({ model: 'sim', ...fields, sim: { words: 1, echo: true } }),
    })
  // The path names the model, so the ceiling is that of an unknown number of answers.
  for (const fields of [
    { max_tokens: 1, n: 90_000 },
    { max_tokens: 1, best_of: '90000' },
    { max_tokens: 1, n: 300, prompt: Array.from({ length: 300 }, () => 'a') },
  ]) {
    const { status, text } = await complete('/llm/sim/v1/completions', { prompt: 'a', ...fields })
    t.equal(status, 400, text.slice(0, 200))
    t.match(JSON.parse(text).error.message, /90000 answers are more than the \d+ tokens/)
    await gateway.settled()
  }
  t.equal((await complete('/llm/sim/v1/completions', { prompt: 'a', n: 3 })).status, 200)
})

test('asking about a later time changes nothing for anybody', async (t, gateway) => {
  const user = gateway.newUser()
  const { key } = await gateway.mint({ user, subscription: 'taken' })
  const limits = async () => {
    const { data } = JSON.parse((await gateway.ask('/v1/limits', key)).text)
    return data.map(({ kind, used }: { kind: string; used: number }) => [kind, used])
  }
  await gateway.chat(key, { totalTokens: 40 })
  await gateway.settled()
  const abort = new AbortController()
  const running = fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sim', messages: [], sim: { delayMs: 20_000 } }),
    signal: abort.signal,
  }).catch(() => {})
  const before = [
    ['tokens', 40],
    ['requests', 2],
    ['concurrency', 1],
  ]
  await poll(async () => (await limits()).join() === before.join(), 'one request runs')
  const explain = async (inMs: number) => {
    const at = `${new Date(Date.now() + inMs).toISOString().slice(0, 19)}Z`
    const body = JSON.stringify({ model: 'llm/sim', subscription: 'taken', at })
    const token = `token-${gateway.newUser()}`
    return JSON.parse((await gateway.ask('/v1/explain', token, { method: 'POST', body })).text)
  }
  for (const hours of [1, 2, 24 * 365]) {
    t.match(await explain(hours * 3_600_000), { allowed: true, limits: [{ used: 0 }] })
    t.same(await limits(), before)
  }
  abort.abort()
  await running
})

test('a Subscription that only counts changes no body', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  for (const at of [path, shared]) {
    const answer = await ask(gateway, key, {}, at)
    t.equal(received(answer).max_completion_tokens, undefined)
    t.equal(answer.headers.get('x-tollgate-max-output-tokens'), null)
  }
})

/** What of its limit a key has used. */
async function usedBy({ ask, settled }: Gateway, key: string): Promise<number> {
  await settled()
  return JSON.parse((await ask('/v1/limits', key)).text).data[0].used
}

test('a stream that breaks off is charged for what was sent', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'large' })
  // About as many tokens for its length as text usually has.
  const messages = [{ role: 'user', content: 'Hi '.repeat(100) }]
  const stream = (sim: object) =>
    gateway.chat(key, { words: 100, ...sim }, { stream: true, messages }, shared).catch(() => {})
  const whole = await usedBy(gateway, key)
  for (let i = 0; i < 20; i += 1) await stream({})
  let before = await usedBy(gateway, key)
  const each = (before - whole) / 20
  t.equal(each, 200)
  for (let tenth = 1; tenth < 10; tenth += 1) {
    // The first event has no text.
    await stream({ dropAfterChunks: 10 * tenth + 1 })
    const used = await usedBy(gateway, key)
    const charged = used - before
    before = used
    const sent = each - 100 + 10 * tenth
    t.ok(Math.abs(charged - sent) <= 0.15 * sent, `${charged} for ${sent} tokens`)
  }
})

test('with usage in every chunk it is charged exactly', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'large' })
  let before = await usedBy(gateway, key)
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const dropAfterChunks = 10 * tenth + 2
    const sent = await gateway.model.tally()
    const sim = { words: 100, usageEveryChunk: true, dropAfterChunks }
    await gateway.chat(key, sim, { stream: true }, shared).catch(() => {})
    const used = await usedBy(gateway, key)
    const charged = used - before
    before = used
    const { totalTokens } = await gateway.model.tally()
    // One more is that of the meter which waits for the others.
    t.equal(charged, totalTokens - sent.totalTokens - 1)
  }
})

test('a client that hangs up is charged for what was produced until then', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'large' })
  const words = 100
  const messages = [{ role: 'user', content: 'Hi '.repeat(100) }]
  /** Returns what the client has received, in tokens of the answer. */
  const hangUp = async (after: number, label: string, sim: object) => {
    const controller = new AbortController()
    const response = await fetch(gateway.url + shared, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        'x-sim-label': label,
      },
      body: JSON.stringify({
        ...{ model: 'sim', stream: true, messages },
        sim: { words, ...sim },
      }),
      signal: controller.signal,
    })
    let received = 0
    try {
      for await (const chunk of response.body ?? []) {
        received +=
          Buffer.from(chunk)
            .toString()
            .match(/"delta":\{"content"/g)?.length ?? 0
        if (received >= after) controller.abort()
      }
    } catch (error) {
      if (!controller.signal.aborted) throw error
    }
    await poll(async () => (await gateway.model.tally()).open === 0, 'the model has noticed')
    return received
  }
  for (let i = 0; i < 20; i += 1) await hangUp(words, 'whole', {})
  let before = await usedBy(gateway, key)
  for (let tenth = 1; tenth < 10; tenth += 1) {
    for (const usageEveryChunk of [false, true]) {
      const label = `${tenth} ${usageEveryChunk}`
      const after = (words * tenth) / 10
      // The first event has no text. While it waits, nothing is under way when the client leaves.
      const sim = { usageEveryChunk, hangAfterChunks: after + 1 }
      t.equal(await hangUp(after, label, sim), after, 'the client has received what was produced')
      const used = await usedBy(gateway, key)
      const charged = used - before
      before = used
      const produced = (await gateway.model.tally()).produced?.[label] ?? 0
      const title = `${charged} for ${produced} tokens`
      if (usageEveryChunk) t.equal(charged, produced, title)
      else t.ok(Math.abs(charged - produced) <= 0.15 * produced, title)
    }
  }
})

test('a client that hangs up is charged, unless requests are only counted', async (t, gateway) => {
  const hangUp = async (name: string) => {
    const { key } = await gateway.mint({ subscription: name })
    const controller = new AbortController()
    const response = await fetch(gateway.url + shared, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        ...{ model: 'sim', stream: true, messages: [{ role: 'user', content: 'Hi' }] },
        sim: { words: 20, chunkDelayMs: 400 },
      }),
      signal: controller.signal,
    })
    const reader = response.body?.getReader()
    for (let i = 0; i < 4; i += 1) await reader?.read()
    controller.abort()
    await poll(async () => {
      const { open } = (await gateway.model.tally()) as { open?: number }
      return open === 0
    }, 'the model has noticed')
    return usedBy(gateway, key)
  }
  const [held, counted] = [await hangUp('large'), await hangUp('counts')]
  t.ok(held >= 3 && held <= 80, `${held} tokens`)
  t.equal(counted, 0)
})

/** Sends a chat call, and leaves when the model has begun, without having had a byte. */
async function leaveEarly(gateway: Gateway, key: string, at: string, isHttp2: boolean) {
  const body = JSON.stringify({
    ...{ model: 'sim', messages: [{ role: 'user', content: 'Hi '.repeat(100) }] },
    sim: { delayMs: 30_000 },
  })
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const hasBegun = () =>
    poll(async () => (await gateway.model.tally()).open > 0, 'the model has begun')
  if (isHttp2) {
    const session = http2.connect(gateway.url).on('error', () => {})
    const stream = session.request({ ':method': 'POST', ':path': at, ...headers })
    stream.on('error', () => {}).end(body)
    await hasBegun()
    stream.close(http2.constants.NGHTTP2_CANCEL)
    await new Promise((closed) => stream.on('close', closed))
    session.destroy()
  } else {
    const abort = new AbortController()
    const init = { method: 'POST', headers, body, signal: abort.signal }
    const running = fetch(gateway.url + at, init).catch(() => {})
    await hasBegun()
    abort.abort()
    await running
  }
  await poll(async () => (await gateway.model.tally()).open === 0, 'the model has noticed')
}

test('a client that leaves before the first byte is charged its input', async (t, gateway) => {
  const lines = () => [...readJournal(journal).values()]
  const before = lines().filter(({ hasLeft }) => hasLeft).length
  const used = async (name: string, at: string, isHttp2: boolean) => {
    const { key } = await gateway.mint({ subscription: name })
    await leaveEarly(gateway, key, at, isHttp2)
    return usedBy(gateway, key)
  }
  for (const at of [shared, path]) {
    for (const isHttp2 of [false, true]) {
      const charged = await used('large', at, isHttp2)
      t.ok(charged >= 50 && charged <= 500, `${at} ${isHttp2}: ${charged} tokens`)
      t.equal(await used('counts', at, isHttp2), 0, 'unless requests are only counted')
    }
  }
  const charged = () => lines().filter((each) => each.hasLeft && chargeOf(each, 'allow').tokens)
  await poll(() => charged().length === before + 4, 'the journal says the same')
  const { key } = await gateway.mint({ subscription: 'greedy' })
  const fails = JSON.stringify({ model: 'greedy', messages: [], fails: true })
  const failed = await gateway.ask(shared, key, { method: 'POST', body: fails })
  t.ok(failed.status >= 500, `${failed.status}`)
  t.equal(await usedBy(gateway, key), 0, 'a failure of the server costs nothing')
})

test('the hold of a stream grows while it runs, and it is charged once', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'large' })
  const left = async () => {
    const answer = await gateway.chat(key, { words: 1 }, { max_tokens: 1 }, shared)
    return Number(answer.headers.get('x-ratelimit-remaining-tokens'))
  }
  const words = 6_000
  let isOver = false
  const running = gateway
    .chat(key, { words, chunkDelayMs: 1 }, { stream: true, max_tokens: words }, shared)
    .finally(() => {
      isOver = true
    })
  await poll(async () => (await left()) < 9_999_000, 'it holds')
  const atFirst = await left()
  const grows = async () => (await left()) < atFirst - 2_000 || isOver
  await poll(grows, 'its hold grows', 60_000)
  t.notOk(isOver)
  const during = JSON.parse((await gateway.ask('/v1/limits', key)).text).data[0].used
  t.ok(during < 1_000, `${during} tokens are counted while it runs`)
  const { text } = await running
  t.match(text, /\[DONE\]/)
  const used = await usedBy(gateway, key)
  t.ok(used > words && used < words + 1_000, `${used} tokens`)
})

/** Sixty streams at once. */
async function burst(gateway: Gateway, name: string) {
  const { key } = await gateway.mint({ subscription: name })
  await gateway.settled()
  const before = await gateway.model.tally()
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      gateway.chat(
        key,
        { words: 100 + ((i * 37) % 200), chunkDelayMs: 2 },
        { max_tokens: 300, stream: true },
        shared,
      ),
    ),
  )
  await gateway.settled()
  const { totalTokens } = await gateway.model.tally()
  return {
    key,
    tokens: totalTokens - before.totalTokens,
    allowed: answers.filter(({ status }) => status === 200).length,
    refused: answers.filter(({ status }) => status === 429),
  }
}

test('a burst stays within the bound', async (t: Test, gateway) => {
  const counted = await burst(gateway, 'counts')
  const held = await burst(gateway, 'reserves')
  t.comment(`limit ${limit}: count used ${counted.tokens}, reserve ${held.tokens}`)
  t.ok(counted.tokens > 1.5 * limit, `${counted.tokens} tokens without holds`)
  t.ok(held.tokens <= 1.25 * limit, `${held.tokens} tokens of ${held.allowed} requests`)
  t.ok(held.allowed >= 8, `${held.allowed} are allowed`)
  for (const { headers } of held.refused) {
    const isBusy = headers.get('x-should-retry') === 'true'
    const wait = Number(headers.get('retry-after'))
    if (!isBusy || wait < 1 || wait > 30) t.fail(`retry-after: ${wait}`)
  }
  await poll(
    async () => (await ask(gateway, held.key, { max_tokens: 10 })).status === 200,
    'nothing is held any more',
  )
})

test('window after window stays within the bound, hang-ups included', async (t, gateway) => {
  const random = createRandom()
  const run = async (name: string) => {
    const minted = [gateway.mint({ subscription: name }), gateway.mint({ subscription: name })]
    const loaded = await runStreams({
      ...{ url: gateway.url, keys: (await Promise.all(minted)).map(({ key }) => key), atOnce: 14 },
      ...{ forMs: 9_000, words: short.words, takesMs: [1_000, 3_000], retryMs: 500 },
      // Often enough that none of some thirty streams is very unlikely.
      ...{ hangUps: 30, random },
    })
    t.comment(`${name}: ${JSON.stringify(loaded)}, limit ${short.limit}`)
    t.ok(loaded.windows >= 3 && loaded.hungUp > 0, `${loaded.windows} windows`)
    return loaded.fullest
  }
  const [held = 0, counted = 0] = await Promise.all(['short', 'short-counts'].map(run))
  t.ok(held <= 1.25 * short.limit, `${held} tokens in a window, seed ${random.seed}`)
  t.ok(counted > 1.25 * short.limit, `${counted} tokens without holds`)
})
