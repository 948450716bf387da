import { counts, scales } from '../support/counted.ts'
import { gatewayTests, meter, models } from '../support/gateway.ts'

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...scales(0, 40, 1_000), meter],
})

/** Values of `usage` in a response, and the number of tokens to be counted for each. */
const forms: Readonly<Record<string, number>> = {
  '{"total_tokens":40}': 40,
  '{"prompt_tokens":1,"total_tokens":40,"completion_tokens":5}': 40,
  '{"total_tokens":40.0}': 40,
  '{"total_tokens":4e1}': 40,
  '{"total_tokens":1e3}': 1_000,
  '{"total_tokens":0}': 0,
  '{"total_tokens":"40"}': 0,
  '{"total_tokens":40.5}': 0,
  '{"total_tokens":-1}': 0,
  '{"total_tokens":-40}': 0,
  '{"total_tokens":null}': 0,
  '{"total_tokens":true}': 0,
  '{"total_tokens":[40]}': 0,
  '{"total_tokens":{"total_tokens":40}}': 0,
  '{"total_tokens":""}': 0,
  '{"total_tokens":9007199254740993}': 0,
  '{"total_tokens":99999999999999999999}': 0,
  '{"total_tokens":1e999}': 0,
  '{"total_tokens":NaN}': 0,
  '{"Total_Tokens":40}': 0,
  '{"prompt_tokens":20,"completion_tokens":20}': 40,
  '{"prompt_tokens":20,"completion_tokens":20,"total_tokens":null}': 40,
  '{"prompt_tokens":20,"completion_tokens":20,"total_tokens":"9"}': 40,
  '{"total_tokens":0,"prompt_tokens":20,"completion_tokens":20}': 40,
  '{"input_tokens":20,"output_tokens":10,"cache_read_input_tokens":10}': 40,
  '{"prompt_tokens":20}': 0,
  '{"completion_tokens":20,"prompt_tokens":null}': 0,
  '{"usage":{"total_tokens":40}}': 0,
  '{}': 0,
  null: 0,
  '40': 0,
  '[]': 0,
  '"40"': 0,
  'no JSON at all': 0,
}

const asked = { stream: true, stream_options: { include_usage: true } }

for (const [form, tokens] of Object.entries(forms)) {
  test(`counts ${tokens} for usage ${form}`, async (t, gateway) => {
    for (const fields of [{}, asked]) {
      await counts(t, gateway, tokens, async (key) => {
        const { status, text } = await gateway.chat(key, { usageRaw: form }, fields)
        t.equal(status, 200)
        t.ok(text.includes(`"usage":${form}`), 'the response is unchanged')
      })
    }
  })
}

test('counts a response of any content type', async (t, gateway) => {
  for (const contentType of ['text/plain', 'application/x-ndjson', 'application/jsonx', 'x']) {
    for (const stream of [false, true]) {
      const sim = { contentType, totalTokens: 40 }
      await counts(t, gateway, 40, (key) => gateway.chat(key, sim, { stream }))
    }
  }
})

test('counts variants of application/json', async (t, gateway) => {
  for (const contentType of ['Application/JSON', 'application/vnd.x+json; v=1']) {
    await counts(t, gateway, 40, (key) => gateway.chat(key, { contentType, totalTokens: 40 }))
  }
})

test('counts nothing for a response without usage', async (t, gateway) => {
  for (const fields of [{}, { stream: true }]) {
    await counts(t, gateway, 0, (key) => gateway.chat(key, { usage: 'none' }, fields))
  }
})

test('counts nothing for an error, whatever it reports', async (t, gateway) => {
  for (const status of [400, 404, 429, 500, 503, 302]) {
    await counts(t, gateway, 0, async (key) => {
      const sim = { status, totalTokens: 40 }
      const answer = await gateway.ask('/llm/sim/v1/chat/completions', key, {
        method: 'POST',
        redirect: 'manual',
        body: JSON.stringify({ messages: [], sim }),
      })
      t.equal(answer.status, status)
      t.equal(JSON.parse(answer.text).usage.total_tokens, 40)
    })
  }
})
