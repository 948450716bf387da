/** What servers report, in the words of each, and what the ledger has of it. */
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { gatewayTests, meter, models } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const scripted = await startScriptedModel()
const team = { groups: ['team'] }
const test = gatewayTests({
  resources: (backendUrl) => [
    ...models(backendUrl).slice(0, 1),
    modelRef('other', { backendUrl: scripted.url }),
    accessPolicy('open', ['llm/sim', 'llm/other'], team),
    subscription('plenty', team, { 'llm/sim': [[1e9, '1h']], 'llm/other': [[1e9, '1h']] }),
    meter,
  ],
  env: { METER_PATHS: 'chat,messages,responses,embeddings' },
})

type Figures = Readonly<Record<string, number>>

const none = { input: 0, cached: 0, cache_write: 0, output: 0, reasoning: 0, total: 0 }
const [chat, messages, responses] = ['chat/completions', 'messages', 'responses']

/** The usage that a server reports at the end of a response, streamed or not, and the figures of its row. */
const usages: readonly (readonly [server: string, operation: string, usage: object, Figures])[] = [
  [
    'SGLang',
    chat,
    {
      ...{ prompt_tokens: 18, completion_tokens: 225, total_tokens: 243 },
      ...{ prompt_tokens_details: null, reasoning_tokens: 162 },
    },
    { input: 18, output: 225, reasoning: 162, total: 243 },
  ],
  [
    'DeepSeek',
    chat,
    {
      ...{ prompt_tokens: 100, completion_tokens: 40, total_tokens: 140 },
      ...{ prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
    },
    { input: 100, cached: 64, output: 40, total: 140 },
  ],
  [
    'Mistral',
    chat,
    { prompt_tokens: 801, completion_tokens: 2, total_tokens: 803, num_cached_tokens: 768 },
    { input: 801, cached: 768, output: 2, total: 803 },
  ],
  [
    "Mistral's details",
    chat,
    {
      ...{ prompt_tokens: 801, completion_tokens: 2, total_tokens: 803 },
      prompt_token_details: { cached_tokens: 768 },
    },
    { input: 801, cached: 768, output: 2, total: 803 },
  ],
  [
    'xAI',
    chat,
    {
      ...{ prompt_tokens: 10_120, completion_tokens: 1_499, total_tokens: 14_428 },
      prompt_tokens_details: { cached_tokens: 128 },
      completion_tokens_details: { reasoning_tokens: 2_809 },
    },
    { input: 10_120, cached: 128, output: 4_308, reasoning: 2_809, total: 14_428 },
  ],
  [
    'Gemini',
    chat,
    { prompt_tokens: 20, completion_tokens: 198, total_tokens: 623 },
    { input: 20, output: 198, total: 623 },
  ],
  [
    'OpenRouter',
    chat,
    {
      ...{ prompt_tokens: 13, completion_tokens: 16, total_tokens: 29, cost: 0.000093 },
      prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 2, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 3, image_tokens: 0 },
      cost_details: { upstream_inference_cost: null },
    },
    { input: 13, cached: 5, cache_write: 2, output: 16, reasoning: 3, total: 29 },
  ],
  [
    'Qwen',
    chat,
    {
      ...{ prompt_tokens: 1_620, completion_tokens: 30, total_tokens: 1_650 },
      prompt_tokens_details: {
        ...{ cached_tokens: 0, cache_creation_input_tokens: 1_605, cache_type: 'ephemeral' },
        cache_creation: { ephemeral_5m_input_tokens: 1_605 },
      },
    },
    { input: 1_620, cache_write: 1_605, output: 30, total: 1_650 },
  ],
  [
    'Anthropic',
    messages,
    {
      ...{ input_tokens: 317, output_tokens: 50, cache_creation_input_tokens: 4_425 },
      cache_creation: { ephemeral_5m_input_tokens: 4_425, ephemeral_1h_input_tokens: 0 },
      output_tokens_details: { thinking_tokens: 20 },
      ...{ cache_read_input_tokens: null, service_tier: 'standard' },
    },
    { input: 4_742, cache_write: 4_425, output: 50, reasoning: 20, total: 4_792 },
  ],
  [
    'OpenAI',
    responses,
    {
      ...{ input_tokens: 10, output_tokens: 1_024, total_tokens: 1_034 },
      input_tokens_details: { cached_tokens: 4 },
      output_tokens_details: { reasoning_tokens: 1_000 },
    },
    { input: 10, cached: 4, output: 1_024, reasoning: 1_000, total: 1_034 },
  ],
]

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`

/** The last event of a stream of this operation. */
const lastEvents: Readonly<Record<string, (usage: object) => object>> = {
  [chat]: (usage) => ({ choices: [], usage }),
  [messages]: (usage) => ({ type: 'message_delta', delta: {}, usage }),
  // A response that was cut at its maximum, or has failed, was generated nevertheless.
  [responses]: (usage) => ({ type: 'response.incomplete', response: { usage } }),
}

test('the ledger has what servers report, by any of its names', async (t, gateway) => {
  for (const [server, operation, usage, figures] of usages) {
    const { key } = await gateway.mint()
    const whole = JSON.stringify({ object: 'x', choices: [{}], usage })
    const last = event(lastEvents[operation]?.(usage) ?? {})
    for (const [type, text] of [
      ['application/json', whole],
      ['text/event-stream', last],
    ] as const) {
      scripted.answer({ headers: { 'content-type': type }, pieces: [text] })
      const fields = { model: 'other', max_tokens: 9, stream: type !== 'application/json' }
      const { status } = await gateway.chat(key, {}, fields, `/llm/other/v1/${operation}`)
      t.equal(status, 200, server)
    }
    const seen = async () => {
      const [row] = JSON.parse((await gateway.ask('/v1/usage', key)).text).data
      return row?.answers === 2 ? row : undefined
    }
    await poll(async () => (await seen()) !== undefined, `${server}: both are in the ledger`)
    const row = await seen()
    for (const [name, tokens] of Object.entries({ ...none, ...figures })) {
      t.equal(row[`${name}_tokens`], 2 * tokens, `${server}: ${name}`)
    }
  }
})
