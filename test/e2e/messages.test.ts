import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import Anthropic from '@anthropic-ai/sdk'
import root from 'tap'
import { counts, scales } from '../support/counted.ts'
import { accessPolicy, modelRef } from '../support/documents.ts'
import { type Gateway, gatewayTests, meter, subscriptions } from '../support/gateway.ts'
import { readScrape } from '../support/metrics.ts'
import { poll } from '../support/poll.ts'

/** A model that reports the requested usage in streams, and always reports usage otherwise. */
const reporter = createServer(async (request, response) => {
  // The service requests the list of models.
  if (request.method === 'GET') return void response.writeHead(404).end()
  const { stream, report, answer } = (await json(request)) as Asked
  const usage = { input_tokens: 25, output_tokens: 12 }
  if (!stream) {
    response.setHeader('content-type', 'application/json').end(toText(answer ?? { usage }))
    return
  }
  response.setHeader('content-type', 'text/event-stream')
  const send = (type: string, fields: object) =>
    response.write(`event: ${type}\ndata: ${toText({ type, ...fields })}\n\n`)
  send('message_start', { message: { role: 'assistant', usage: report.start } })
  send('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'hi' } })
  for (const each of report.deltas) send('message_delta', { delta: {}, usage: each })
  send('message_stop', {})
  response.end()
})
const toText = (value: object) => JSON.stringify(value)
await once(reporter.listen(0, '127.0.0.1'), 'listening')
root.teardown(() => {
  reporter.close()
  reporter.closeAllConnections()
})
const reporterUrl = `http://127.0.0.1:${(reporter.address() as AddressInfo).port}`

const resources = (backendUrl: string) => [
  modelRef('sim', { backendUrl }),
  modelRef('other', { backendUrl: reporterUrl }),
  accessPolicy('open', ['llm/sim', 'llm/other'], { groups: ['team'] }),
  ...scales(0, 1, 12, 17, 25, 37, 1_137),
  ...subscriptions({ hour: 10, plenty: 1_000_000 }),
  meter,
]
const off = gatewayTests({ resources })
const on = gatewayTests({ resources, env: { METER_PATHS: 'chat,messages' } })

const paths = ['/llm/sim/v1/messages', '/v1/messages']
/** The model reports one input and sixteen output tokens. */
const plainTokens = 17

function send(gateway: Gateway, key: string, path: string, fields: object = {}) {
  const body = { model: 'sim', max_tokens: 16, messages: [{ role: 'user', content: 'Hi' }] }
  return gateway.ask(path, key, { method: 'POST', body: JSON.stringify({ ...body, ...fields }) })
}

for (const path of paths) {
  for (const stream of [false, true]) {
    const what = `${stream ? 'a stream' : 'a response'} at ${path}`

    off(`does not count ${what} by default`, async (t, gateway) => {
      await counts(t, gateway, 0, async (key) => {
        const { status, text } = await send(gateway, key, path, { stream })
        t.equal(status, 200)
        t.match(text, /"output_tokens":16/)
      })
    })

    on(`counts ${what} as reported`, async (t, gateway) => {
      await counts(t, gateway, plainTokens, async (key) => {
        t.equal((await send(gateway, key, path, { stream })).status, 200)
      })
    })
  }
}

/** Values of `usage`, and the number of tokens to be counted for each. */
const forms: Readonly<Record<string, number>> = {
  '{"input_tokens":25,"output_tokens":12}': 37,
  '{"input_tokens":25,"cache_creation_input_tokens":null,"output_tokens":12}': 37,
  '{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":12}': 1_137,
  '{"input_tokens":"25","output_tokens":12}': 12,
  '{"input_tokens":25,"output_tokens":1.5}': 25,
  '{"input_tokens":-25,"output_tokens":12}': 12,
  '{"total_tokens":40}': 0,
  '{"prompt_tokens":25,"completion_tokens":12,"total_tokens":37}': 37,
  '{"input_tokens":1,"output_tokens":1,"iterations":[{"type":"compaction","input_tokens":20,"output_tokens":5},{"type":"new","input_tokens":1,"cache_read_input_tokens":10,"output_tokens":1}]}': 37,
  '{"input_tokens":25,"output_tokens":12,"iterations":[]}': 37,
  '{"input_tokens":25,"output_tokens":12,"iterations":null}': 37,
  '{"input_tokens":25,"output_tokens":12,"iterations":[{"input_tokens":"1","output_tokens":1}]}': 37,
  '{"input_tokens":1,"output_tokens":1,"iterations":[{"type":"message","input_tokens":99,"output_tokens":0},{"type":"fallback_message","input_tokens":25,"output_tokens":12}]}': 37,
  '{"Input_Tokens":25}': 0,
  '{}': 0,
  null: 0,
  '[25]': 0,
}

for (const [form, tokens] of Object.entries(forms)) {
  on(`usage ${form} counts ${tokens}`, async (t, gateway) => {
    for (const stream of [false, true]) {
      await counts(t, gateway, tokens, async (key) => {
        const sim = { usageRaw: form }
        const { status, text } = await send(gateway, key, '/v1/messages', { stream, sim })
        t.equal(status, 200)
        t.ok(text.includes(`"usage":${form}`), 'the response is unchanged')
      })
    }
  })
}

interface Asked {
  readonly stream?: boolean
  readonly report: Report
  /** The whole response, instead of one with the usual usage. */
  readonly answer?: object
}

interface Report {
  readonly start?: object
  readonly deltas: readonly object[]
}

/** Usage as servers report it in a stream: in `message_start` and in each `message_delta`. */
const streams: Readonly<Record<string, readonly [tokens: number, report: Report]>> = {
  'usage only at the end': [37, { deltas: [{ input_tokens: 25, output_tokens: 12 }] }],
  'input at the start': [
    37,
    { start: { input_tokens: 25, output_tokens: 1 }, deltas: [{ output_tokens: 12 }] },
  ],
  'zeros at the start': [
    37,
    {
      start: { input_tokens: 0, output_tokens: 0 },
      deltas: [{ input_tokens: 25, output_tokens: 12 }],
    },
  ],
  'no input at the end': [
    37,
    {
      start: { input_tokens: 25, output_tokens: 0 },
      deltas: [{ input_tokens: 0, output_tokens: 12 }],
    },
  ],
  'cumulative sums': [
    37,
    {
      start: { input_tokens: 25, output_tokens: 1 },
      deltas: [{ output_tokens: 5 }, { output_tokens: 12 }],
    },
  ],
  'a cache': [
    1_137,
    {
      start: {
        input_tokens: 25,
        cache_creation_input_tokens: 100,
        cache_read_input_tokens: 1_000,
      },
      deltas: [{ output_tokens: 12 }],
    },
  ],
  'usage only at the start': [25, { start: { input_tokens: 25, output_tokens: 0 }, deltas: [] }],
  nothing: [0, { deltas: [] }],
}

for (const [title, [tokens, report]] of Object.entries(streams)) {
  on(`counts ${tokens} for a stream with ${title}`, async (t, gateway) => {
    await counts(
      t,
      gateway,
      tokens,
      async (key) => {
        const { status, text } = await send(gateway, key, '/v1/messages', {
          model: 'other',
          stream: true,
          report,
        })
        t.equal(status, 200)
        t.match(text, /message_stop/)
      },
      'other',
    )
  })
}

async function unusableOf({ addresses }: Gateway): Promise<number> {
  const { metrics } = addresses
  const scrape = readScrape(
    await (await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`)).text(),
  )
  return scrape.value('tollgate_usage_unusable_total', { model: 'llm/other' }) ?? 0
}

const countTokens = '/llm/other/v1/messages/count_tokens'

on('counts nothing for count_tokens, whatever it answers beside usage', async (t, gateway) => {
  const before = await unusableOf(gateway)
  for (const answer of [{ input_tokens: 37 }, { input_tokens: 37, usage: { input_tokens: 'x' } }]) {
    await counts(
      t,
      gateway,
      0,
      async (key) => {
        const { status, text } = await send(gateway, key, countTokens, { answer })
        t.equal(status, 200)
        t.strictSame(JSON.parse(text), answer)
      },
      'other',
    )
  }
  t.equal(await unusableOf(gateway), before, 'no estimate would be made')
})

on(
  'counts the usage in an answer to count_tokens: its server took it for a message',
  async (t, gateway) => {
    for (const stream of [false, true]) {
      const report = {
        start: { input_tokens: 25, output_tokens: 1 },
        deltas: [{ output_tokens: 12 }],
      }
      await counts(
        t,
        gateway,
        37,
        async (key) => {
          const { status, text } = await send(gateway, key, countTokens, { stream, report })
          t.equal(status, 200)
          t.match(text, /"usage"/)
        },
        'other',
      )
    }
  },
)

off(
  'counts no usage in an answer to count_tokens where messages are not counted',
  async (t, gateway) => {
    await counts(
      t,
      gateway,
      0,
      async (key) => t.equal((await send(gateway, key, countTokens)).status, 200),
      'other',
    )
  },
)

on('messages and chat share one limit', async (_, gateway) => {
  const { key } = await gateway.mint({ subscription: 'limit-37' })
  await gateway.chat(key, { totalTokens: 20 })
  await send(gateway, key, '/v1/messages')
  await poll(() => gateway.isSpent(key), '20 and 17 tokens reach the limit of 37')
})

on('counts the reported usage of an aborted stream', async (t, gateway) => {
  await counts(t, gateway, 1, async (key) => {
    const sim = { dropAfterChunks: 3 }
    await send(gateway, key, '/v1/messages', { stream: true, sim }).catch(() => {})
  })
})

on('counts nothing for a failed message', async (t, gateway) => {
  await counts(t, gateway, 0, async (key) => {
    const sim = { status: 500, usage: { input_tokens: 25, output_tokens: 12 } }
    t.equal((await send(gateway, key, '/v1/messages', { sim })).status, 500)
  })
})

on('refuses other spellings of the path if it is metered', async (t, gateway) => {
  const { key } = await gateway.mint()
  for (const end of ['/v1/messages/', '/v1/Messages', '/v1/messages;a=b', '/v1/messages%20']) {
    const { status, text } = await send(gateway, key, `/llm/sim${end}`)
    t.equal(status, 404, end)
    t.match(text, '/v1/messages.')
  }
})

off('serves only the exact path', async (t, gateway) => {
  const { key } = await gateway.mint()
  t.equal((await send(gateway, key, '/llm/sim/v1/messages/')).status, 404)
})

/** Anthropic's client library, without retries. */
function client(gateway: Gateway, apiKey: string): Anthropic {
  return new Anthropic({ baseURL: gateway.url, apiKey, maxRetries: 0 })
}

const request = {
  model: 'sim',
  max_tokens: 16,
  messages: [{ role: 'user' as const, content: 'Hi' }],
}

for (const stream of [false, true]) {
  const how = stream ? 'streaming' : 'asking'
  on(`the anthropic client ${how} spends and is refused`, async (t, gateway) => {
    const { key } = await gateway.mint({ subscription: 'hour' })
    const { messages } = client(gateway, key)
    const { usage } = stream
      ? await messages.stream(request).finalMessage()
      : await messages.create(request)
    t.match(usage, { input_tokens: 1, output_tokens: 16 })
    await poll(() => gateway.isSpent(key), 'the limit of 10 is reached')

    const refused = await messages.create(request).catch((error: unknown) => error)
    t.ok(refused instanceof Anthropic.RateLimitError)
    const { status, error, headers } = refused as InstanceType<typeof Anthropic.RateLimitError>
    t.equal(status, 429)
    t.match(error, {
      type: 'error',
      error: { type: 'rate_limit_error', message: /17 of 10 tokens in 1h/ },
    })
    t.equal(headers.get('anthropic-ratelimit-tokens-limit'), '10')
    t.equal(headers.get('anthropic-ratelimit-tokens-remaining'), '0')
    t.match(headers.get('anthropic-ratelimit-tokens-reset'), /^\d{4}-\d\d-\d\dT/)
    t.equal(headers.get('x-should-retry'), 'false')
    t.ok(Number(headers.get('retry-after')) > 60)
  })
}
