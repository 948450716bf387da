import { chatPath, gatewayTests, meter, models, subscriptions } from '../support/gateway.ts'
import { poll } from '../support/poll.ts'

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ one: 1 }), meter],
})
const paths = [chatPath, '/v1/chat/completions']
const start = '{"model":"sim","messages":[]'
const asked = '"stream_options":{"include_usage":true}'

/** The body as sent, and as the model receives it. */
const streams: readonly (readonly [string, string])[] = [
  [`${start},"stream":true}`, `${start},"stream":true,${asked}}`],
  [` ${start} , "stream" : true \n } \n `, ` ${start} , "stream" : true \n ,${asked}} \n `],
  [`${start},"stream":true,"stream_options":{}}`, `${start},"stream":true,${asked}}`],
  [
    `${start},"stream_options":{ \n },"stream":true}`,
    `${start},"stream_options":{ \n "include_usage":true},"stream":true}`,
  ],
  [
    `${start},"stream_options":{"continuous_usage_stats":true},"stream":true,"z":1}`,
    `${start},"stream_options":{"continuous_usage_stats":true,"include_usage":true},"stream":true,"z":1}`,
  ],
  [`${start},"stream":true,${asked}}`, `${start},"stream":true,${asked}}`],
  [
    `${start},"stream":true,"stream_options":{"include_usage" : false , "a":{"}":1}}}`,
    `${start},"stream":true,"stream_options":{"include_usage" : true , "a":{"}":1}}}`,
  ],
  [
    `${start},"stream":true,"stream_options":{"include_usage":null}}`,
    `${start},"stream":true,${asked}}`,
  ],
  [
    `${start},"stream":true,"stream_options": null }`,
    `${start},"stream":true,"stream_options": {"include_usage":true} }`,
  ],
]

/** Members that no parser misreads; they are passed on unchanged. */
const members: readonly string[] = [
  '"seed":9007199254740993,"x":1.10,"y":1E2,"tools":{"b":1,"a":2}',
  '"x":123456789012345678901234567890',
  '"x":"\\ud83d\\ude00","m":"\u00e9\u20ac\ud83d\ude00"',
  '"x":"\\\\","y":"\\\\\\"","z":"}","w":"\\",\\"stream\\":true"',
  '"x":{"Stream":true,"Model":1,"stream":true}," stream":true,"":1',
  '"-":1,"_":1,"stream-model":true,"max-tokens":1,"model_streamed_by_somebody_whose_name_is_long":1',
  `"x":${'['.repeat(99)}${']'.repeat(99)}`,
  `"x":"${'y'.repeat(200_000)}"`,
]

interface Seen {
  readonly headers: Record<string, string>
  readonly body: string
}

/**
 * The request as the model received it, from a response or the first event of a stream that echoes
 * it.
 */
function seenIn(text: string): Seen {
  return JSON.parse(text.replace(/^data: /, '').split('\n\n')[0] ?? '').sim_echo
}

test('adds a request for usage to streams, and changes nothing else', async (t, gateway) => {
  for (const [sent, arrives] of streams) {
    for (const path of paths) {
      const { key } = await gateway.mint({ subscription: 'one' })
      const headers = { 'x-sim': '{"echo":true}', 'content-type': 'application/json' }
      const answer = await gateway.ask(path, key, { method: 'POST', headers, body: sent })
      t.equal(answer.status, 200)
      t.equal(seenIn(answer.text).body, arrives)
      const asked = /"(include_usage|continuous_usage_stats)":true/.test(sent)
      t.equal(
        answer.text.includes('"total_tokens":16'),
        asked,
        'the response has usage only if requested',
      )
      await poll(() => gateway.isSpent(key), `${sent} is counted`)
    }
  }
})

test('also if the body reaches the script in pieces', async (t, gateway) => {
  const headers = { 'x-sim': '{"echo":true}' }
  const options = '"stream":true,"stream_options":{"include_usage" : false , "a":{"}":1}}}'
  const rest = `",${start.slice(1)},${options}`
  for (let before = 0; before < rest.length; before += 2) {
    const { key } = await gateway.mint({ subscription: 'one' })
    const body = '{"x":"'.padEnd(65_536 - before, 'y') + rest
    const answer = await gateway.ask(chatPath, key, { method: 'POST', headers, body })
    t.ok(seenIn(answer.text).body === body.replace(' : false', ' : true'), `${before} bytes before`)
  }
})

test('passes other members on byte for byte', async (t, gateway) => {
  for (const member of members) {
    for (const [end, added] of [
      ['}', ''],
      [',"stream":false}', ''],
      [',"stream":null}', ''],
      [',"stream":true}', `,${asked}`],
    ] as const) {
      const { key } = await gateway.mint({ subscription: 'one' })
      const sent = `${start},${member}${end}`
      const headers = { 'x-sim': '{"echo":true}' }
      const answer = await gateway.ask(chatPath, key, { method: 'POST', headers, body: sent })
      t.equal(answer.status, 200)
      t.ok(seenIn(answer.text).body === `${sent.slice(0, -1)}${added}}`, member.slice(0, 60))
      await poll(() => gateway.isSpent(key), `${member.slice(0, 60)} is counted`)
    }
  }
})

test('sends accepted bodies as application/json', async (t, gateway) => {
  for (const type of [
    'text/plain;charset=UTF-8',
    'Application/JSON',
    'application/xml',
    'application/x-www-form-urlencoded',
    'application/json; x="y"',
  ]) {
    for (const path of paths) {
      const { key } = await gateway.mint({ subscription: 'one' })
      const headers = { 'x-sim': '{"echo":true}', 'content-type': type }
      const body = `${start},"stream":true}`
      const { text } = await gateway.ask(path, key, { method: 'POST', headers, body })
      t.equal(seenIn(text).headers['content-type'], 'application/json', type)
    }
  }
})

test('does not read bodies of uncounted operations', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'one' })
  const headers = { 'x-sim': '{"status":418,"echo":true}', 'content-type': 'application/json' }
  const body = '{"stream":true,"stream":'
  const path = '/llm/sim/v1/audio/transcriptions'
  const answer = await gateway.ask(path, key, { method: 'POST', headers, body })
  t.equal(answer.status, 418)
  t.equal(seenIn(answer.text).body, body)
})
