import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { accessPolicy, modelRef, subscription } from '../support/documents.ts'
import { endAtOnce, type Gateway, gatewayTests, meter } from '../support/gateway.ts'
import { startScriptedModel } from '../support/scripted-model.ts'

const scripted = await startScriptedModel()
const team = { groups: ['team'] }
const output = { usageInEveryChunk: true }
const limits = Object.fromEntries(
  ['llm/sim', 'llm/scripted', 'llm/plain', 'llm/strict', 'llm/lone'].map((model) => [
    model,
    [[10_000_000, '1h']] as const,
  ]),
)
const test = gatewayTests({
  resources: (backendUrl) => [
    modelRef('sim', { backendUrl, output }),
    modelRef('scripted', { backendUrl: scripted.url, output }),
    modelRef('plain', { backendUrl: scripted.url }),
    modelRef('strict', { backendUrl: scripted.url, output: { streamUsage: 'unasked' } }),
    modelRef('lone', { backendUrl, output: { usageOfAllAnswers: false } }),
    accessPolicy('open', Object.keys(limits), team),
    subscription('counts', team, limits),
    subscription('reserves', team, limits, { admission: { mode: 'reserve' } }),
    subscription('takes', team, limits, {
      ofModels: { requestRateLimits: [{ limit: 2, window: '1h' }] },
    }),
    meter,
  ],
  env: { METER_PATHS: 'chat,completions' },
  adjustEnvoy: endAtOnce,
})

const [atEnd, inEach] = ['"include_usage":true', '"continuous_usage_stats":true']
const both = `"stream_options":{${atEnd},${inEach}}`

test('a stream is asked for usage in each of its events', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  for (const [at, start] of [
    ['/llm/sim/v1/chat/completions', '{"messages":[],"model":"sim"'],
    ['/v1/chat/completions', '{"messages":[],"model":"sim"'],
    ['/llm/sim/v1/completions', '{"prompt":"","model":"sim"'],
    ['/v1/completions', '{"prompt":"","model":"sim"'],
  ] as const) {
    for (const [sent, arrives] of [
      [',"stream":true', `,"stream":true,${both}`],
      [',"stream":true,"stream_options":null', `,"stream":true,${both}`],
      [`,"stream_options":{${atEnd}},"stream":true`, `,${both},"stream":true`],
      [
        `,"stream":true,"stream_options":{ }`,
        `,"stream":true,"stream_options":{ ${atEnd},${inEach}}`,
      ],
      [`,"stream":true,${both}`, `,"stream":true,${both}`],
      [
        ',"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":null}',
        `,"stream":true,"stream_options":{${inEach},${atEnd}}`,
      ],
      [',"stream":false', ',"stream":false'],
      ['', ''],
    ]) {
      const headers = { 'x-sim': '{"echo":true}', 'content-type': 'application/json' }
      const body = `${start}${sent}}`
      const { text, status } = await gateway.ask(at, key, { method: 'POST', headers, body })
      t.equal(status, 200, text)
      const echo = JSON.parse(text.replace(/^data: /, '').split('\n\n')[0] ?? '').sim_echo
      t.equal(echo.body, `${start}${arrives}}`, at)
      t.notMatch(JSON.stringify(echo.headers), 'x-tollgate-chunk-usage')
    }
    const odd = `${start},"stream":true,"stream_options":{"continuous_usage_stats":1}}`
    t.equal((await gateway.ask(at, key, { method: 'POST', body: odd })).status, 400)
  }
})

const usage = (tokens: number) =>
  `{"prompt_tokens":1,"total_tokens":${tokens + 1},"completion_tokens":${tokens}}`
const chunk = (choices: string, reported: string) =>
  `{"id":"c","usage" : ${reported},"choices":[${choices}]${choices && ',"x":{"usage":{"total_tokens":9}}'}}`
const [one, two] = ['{"delta":{"content":"a"}}', '{"delta":{"content":"\\"usage\\":{}"}}']

/** The stream of a server, with these figures in its events, and at its end. */
function streamOf([first, second, end]: readonly string[], newline: string): string {
  const last = end === undefined ? [] : [chunk('', end)]
  const events = [chunk(one, `${first}`), chunk(two, `${second}`), ...last, '[DONE]']
  return events.map((data) => `data: ${data}${newline}${newline}`).join('')
}

test('the client sees the usage that it has asked for', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  const [a, b] = [usage(1), usage(2)]
  for (const [options, seen] of [
    [undefined, ['null', 'null']],
    [{ include_usage: true }, ['null', 'null', b]],
    [{ include_usage: true, continuous_usage_stats: false }, ['null', 'null', b]],
    [{ include_usage: true, continuous_usage_stats: true }, [a, b, b]],
  ] as const) {
    for (const newline of ['\n', '\r\n']) {
      const whole = streamOf([a, b, b], newline)
      for (const size of [1, 2, 3, 5, 17, 64, 100, whole.length]) {
        const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) as string[]
        scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces })
        const fields = { stream: true, ...(options && { stream_options: options }) }
        const at = '/llm/scripted/v1/chat/completions'
        const { text } = await gateway.chat(key, undefined, { model: 'scripted', ...fields }, at)
        t.equal(text, streamOf(seen, newline), `${JSON.stringify(options)}, ${size} bytes each`)
      }
    }
  }
})

test('an event that is too long to be held passes as it is', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  const content = JSON.stringify({ delta: { content: 'x'.repeat(100_000) } })
  const pieces = [`data: ${chunk(content, usage(1))}\n\n`, streamOf([usage(2), usage(3)], '\n')]
  scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces })
  const at = '/llm/scripted/v1/chat/completions'
  const { text } = await gateway.chat(key, undefined, { model: 'scripted', stream: true }, at)
  t.ok(text === `${pieces[0]}${streamOf(['null', 'null'], '\n')}`)
})

test('a server that refuses to be asked is not asked', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  const bytes = `data: ${chunk(one, 'null')}\n\ndata: ${chunk('', usage(2))}\n\n`
  scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces: [bytes] })
  const used = async () => {
    await gateway.settled()
    const { data } = JSON.parse((await gateway.ask('/v1/limits', key)).text)
    return data.find(({ model }: { model: string }) => model.endsWith('strict')).used
  }
  for (const operation of ['chat/completions', 'completions']) {
    for (const at of [`/llm/strict/v1/${operation}`, `/v1/${operation}`]) {
      for (const options of [
        '',
        ',"stream_options":null',
        ',"stream_options": { }',
        ',"stream_options":{"include_usage":false,"x":1}',
        ',"stream_options":{"include_usage":true}',
      ]) {
        const before = await used()
        const body = `{"model":"strict","stream":true${options},"messages":[],"prompt":"" }`
        const { text } = await gateway.ask(at, key, { method: 'POST', body })
        t.equal(scripted.received.at(-1)?.body, body, at)
        t.equal(text, bytes, 'the client gets what the server sends')
        t.equal(await used(), before + 3)
      }
    }
  }
})

async function usedBy(gateway: Gateway, key: string, name = 'sim'): Promise<number> {
  await gateway.settled()
  const { data } = JSON.parse((await gateway.ask('/v1/limits', key)).text)
  return data.find(({ model }: { model: string }) => model.endsWith(name)).used
}

test('what breaks off at any tenth is charged exactly, reserved or not', async (t, gateway) => {
  for (const subscription of ['reserves', 'counts']) {
    const { key } = await gateway.mint({ subscription })
    for (let tenth = 1; tenth < 10; tenth += 1) {
      const [before, sent] = [await usedBy(gateway, key), await gateway.model.tally()]
      // The first event has no text.
      const sim = { words: 100, dropAfterChunks: 10 * tenth + 1 }
      await gateway.chat(key, sim, { stream: true }, '/v1/chat/completions').catch(() => {})
      const charged = (await usedBy(gateway, key)) - before
      t.ok(charged > 10 * tenth && charged <= 10 * tenth + 10, `${charged} at tenth ${tenth}`)
      const { totalTokens } = await gateway.model.tally()
      // One more is that of the meter which waits for the others.
      t.equal(charged, totalTokens - sent.totalTokens - 1, subscription)
    }
  }
})

/** An event of vLLM or SGLang: its usage is that of its choice, and of the prompt of this choice. */
const ofChoice = (index: number, prompt: number, output: number) =>
  `data: {"choices":[{"index":${index},"delta":{"content":"a"}}],"usage":{"prompt_tokens":${prompt},"total_tokens":${prompt + output},"completion_tokens":${output}}}\n\n`

test('of a stream that breaks off all choices are charged', async (t, gateway) => {
  const asked = { stream_options: { include_usage: true, continuous_usage_stats: true } }
  const ends = 'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":9}}\n\n'
  const chats = [1, 2, 3].flatMap((output) => [
    ofChoice(0, 10, output),
    ofChoice(1, 10, 2 * output),
  ])
  const loose = { include_usage: true, continuous_usage_stats: 1 }
  const unnumbered = chats.map((chunk) => chunk.replace('"index":0,', ''))
  const lessLater = [ofChoice(0, 0, 4), ofChoice(1, 0, 0)]
  const far = ofChoice(1e6, 3, 2)
  // Two choices of each of two prompts.
  const texts = [ofChoice(0, 5, 1), ofChoice(1, 5, 2), ofChoice(2, 7, 3), ofChoice(2, 7, 4)]
  for (const subscription of ['counts', 'reserves']) {
    const { key } = await gateway.mint({ subscription })
    for (const [model, operation, fields, pieces, charged] of [
      ['scripted', 'chat/completions', { n: 2 }, chats, 10 + 3 + 6],
      ['scripted', 'chat/completions', { n: 2, ...asked }, chats, 10 + 3 + 6],
      // The server reports in each event because the client has asked for it.
      ['plain', 'chat/completions', { n: 2, ...asked }, chats, 10 + 3 + 6],
      // Servers read this as true.
      ['plain', 'chat/completions', { n: 2, stream_options: loose }, chats, 10 + 3 + 6],
      ['scripted', 'chat/completions', { n: 2 }, unnumbered, 10 + 3 + 6],
      ['scripted', 'chat/completions', { n: 2 }, [...chats, ...lessLater], 10 + 4 + 6],
      ['scripted', 'completions', { n: 2, prompt: ['a', 'b'] }, texts, 5 + 7 + 1 + 2 + 4],
      ['scripted', 'completions', { prompt: ['a', 'b'] }, [...texts.slice(0, 2), far], 13 + 5],
      ['scripted', 'completions', { prompt: ['a', 'b'] }, texts.slice(0, 2), 5 + 5 + 1 + 2],
      // At its end it reports all of it.
      ['scripted', 'chat/completions', { n: 2 }, [...chats, ends], 19],
    ] as const) {
      const before = await usedBy(gateway, key, model)
      scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces, isCut: true })
      const ask = { model, stream: true, max_tokens: 50, ...fields }
      const at = subscription === 'counts' ? `/v1/${operation}` : `/llm/${model}/v1/${operation}`
      await gateway.chat(key, undefined, ask, at).catch(() => {})
      const title = `${at} ${JSON.stringify(fields)} ${pieces.length}`
      t.equal((await usedBy(gateway, key, model)) - before, charged, title)
    }
  }
})

test('usage of a single choice is charged as it is reported, whatever was asked for', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'counts' })
  const details = { completion_tokens_details: { reasoning_tokens: 300 } }
  // Gemini and xAI have reasoning only in the total, in an event with a choice; others count less than the parts.
  for (const total of [500, 190]) {
    const reported = { prompt_tokens: 100, completion_tokens: 100, total_tokens: total, ...details }
    const chunk = { choices: [{ index: 0, delta: { content: 'a' } }], usage: reported }
    const pieces = [`data: ${JSON.stringify(chunk)}\n\n`]
    for (const own of [undefined, true, 1]) {
      const before = await usedBy(gateway, key, 'plain')
      scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces })
      const options = { include_usage: true, continuous_usage_stats: own }
      const ask = { model: 'plain', stream: true, n: 2, stream_options: options }
      await gateway.chat(key, undefined, ask, '/llm/plain/v1/chat/completions')
      t.equal((await usedBy(gateway, key, 'plain')) - before, total, `asked for with ${own}`)
    }
  }
})

/** Events with a piece of text, as servers send them. */
const texts: Readonly<Record<string, (text: string) => string>> = {
  chat: (text) => `{"choices":[{"index":0,"delta":{"role":"assistant","content":${text}}}]}`,
  completions: (text) => `{"choices":[{"text": ${text},"index":0}]}`,
  reasoning: (text) => `{"choices":[{"delta":{"content":"","reasoning_content":${text}}}]}`,
  tools: (text) =>
    `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":${text}}}]}}]}`,
  responses: (text) => `{"type":"response.output_text.delta","delta":${text}}`,
  messages: (text) => `{"type":"content_block_delta","delta":{"type":"text_delta","text":${text}}}`,
}

test('what no usage was reported of is charged by its text, whatever is around it', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'reserves' })
  const charge = async (pieces: readonly string[]) => {
    const before = await usedBy(gateway, key, 'strict')
    scripted.answer({ headers: { 'content-type': 'text/event-stream' }, pieces })
    const at = '/llm/strict/v1/chat/completions'
    await gateway.chat(key, undefined, { model: 'strict', stream: true }, at)
    return (await usedBy(gateway, key, 'strict')) - before
  }
  const around = `"logprobs":"${'x'.repeat(5_000)}"`
  for (const [form, event] of Object.entries(texts)) {
    // Of 16 bytes with its escapes.
    const events = (count: number) =>
      Array.from({ length: count }, () => `data: ${event('"a \\n\\"quote\\": x"')}\n\n`)
    const short = await charge(events(10))
    t.equal(await charge(events(30)), short + 80, form)
    const padded = events(10).map((text) => text.replace('{', `{${around},`))
    t.equal(await charge(padded), short, `${form}, in long events`)
    t.equal(await charge([events(10).join('')]), short, `${form}, at once`)
    const long = `data: ${event(`"${'x'.repeat(480)}"`)}\n\n`
    t.equal(
      await charge([long.slice(0, 300), long.slice(300)]),
      short + 80,
      `${form}, in one event`,
    )
  }
})

test('no label, repetition, search result or citation changes what is charged for a text', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'reserves' })
  const charge = async (type: string | undefined, pieces: readonly (string | Buffer)[]) => {
    const before = await usedBy(gateway, key, 'strict')
    scripted.answer({ headers: type === undefined ? {} : { 'content-type': type }, pieces })
    const ask = { model: 'strict', stream: true, max_tokens: 5_000 }
    await gateway.chat(key, undefined, ask, '/llm/strict/v1/chat/completions')
    return (await usedBy(gateway, key, 'strict')) - before
  }
  const words = Array.from({ length: 40 }, () => 'a word, ')
  const streamOf = (event: (text: string) => string) =>
    words.map((word) => `data: ${event(JSON.stringify(word))}\n\n`)
  const stream = streamOf((text) => texts.chat?.(text) ?? '')
  const charged = await charge('text/event-stream', stream)
  for (const type of ['text/plain', 'application/x-ndjson', 'application/json', undefined]) {
    t.equal(await charge(type, stream), charged, `a stream labelled ${type}`)
    t.equal(await charge(type, ['\n', ...stream]), charged, `after an empty line, ${type}`)
  }
  for (const name of ['reasoned_content', 'd_content', 'decoded_refusal', 'edited_text']) {
    const named = stream.map((text) => text.replace('"content"', `"${name}"`))
    t.equal(await charge('text/event-stream', named), charged, name)
  }
  const compressed = gzipSync(randomBytes(4_000))
  const perByte = await charge('application/json', [`{"x":"${'x'.repeat(compressed.length - 8)}"}`])
  t.equal(await charge('application/json', [compressed]), perByte, 'compressed')
  const whole = `{"choices":[{"message":{"content":"${words.join('')}"}}]}`
  const ofWhole = await charge('application/json', [whole])
  t.equal(await charge('text/event-stream', [whole]), ofWhole, 'no stream, although labelled so')
  // At the end of a text the Responses API repeats it.
  const text = JSON.stringify(words.join(''))
  const deltas = streamOf((word) => `{"type":"response.output_text.delta","delta":${word}}`)
  const part = `{"type":"output_text","text":${text}}`
  const item = `{"type":"message","content":[${part}]}`
  const ends = [
    `{"type":"response.output_text.done","text":${text}}`,
    `{"type":"response.content_part.done","part":${part}}`,
    `{"type":"response.output_item.done","item":${item}}`,
    `{"type":"response.completed","response":{"output":[${item}]}}`,
  ].map((data) => `data: ${data}\n\n`)
  for (const count of [0, 1, 3, 4]) {
    const pieces = [...deltas, ...ends.slice(0, count)]
    t.equal(await charge('text/event-stream', pieces), charged, `repeated ${count} times`)
  }
  const result = `{"type":"web_search_result","encrypted_content":"${'Q'.repeat(8_000)}"}`
  const citation = `{"type":"char_location","cited_text":"${'Q'.repeat(8_000)}"}`
  const others = [
    ['a search result', `{"content_block":{"content":[${result}]}}`],
    ['a citation', `{"delta":{"type":"citations_delta","citation":${citation}}}`],
  ] as const
  for (const [title, data] of others) {
    for (const pieces of [stream, deltas]) {
      t.equal(await charge('text/event-stream', [`data: ${data}\n\n`, ...pieces]), charged, title)
    }
  }
})

const overloaded = '{"message":"Overloaded","code":529}'
const ofAnthropic = `{"type": "error", "error": ${overloaded}}`
const ofResponses = `{"type":"response.failed","response":{"error":${overloaded},"usage":null}}`

test('what a server fails is free although its status is 200, unless it sent text', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'reserves' })
  const charge = async (type: string, pieces: readonly string[]) => {
    const before = await usedBy(gateway, key, 'strict')
    scripted.answer({ headers: { 'content-type': type }, pieces })
    const ask = { model: 'strict', stream: true, max_tokens: 5_000 }
    await gateway.chat(key, undefined, ask, '/llm/strict/v1/chat/completions')
    return (await usedBy(gateway, key, 'strict')) - before
  }
  const charged = await charge('text/event-stream', [': ping\n\n', 'data: [DONE]\n\n'])
  t.ok(charged > 20, `${charged}: the input of a stream without text`)
  const created = (more: string) => `data: {"type":"response.created","response":{${more}}}\n\n`
  for (const failure of [
    `data: {"error":${overloaded}}\n\ndata: [DONE]\n\n`,
    'data: {"error":"Overloaded"}\n\n',
    `data:{"object":"error",${overloaded.slice(1)}\n\n`,
    `event: error\ndata: ${ofAnthropic}\n\n`,
    `error: ${overloaded}\n\n`,
    `data: ${ofResponses}\n\n`,
  ]) {
    t.equal(await charge('text/event-stream', [failure]), 0, failure)
    const later = [': ping\n\n', created('"error":null'), failure]
    t.equal(await charge('text/event-stream', later), 0, `later, ${failure}`)
    const text = `data: {"choices":[{"delta":{"content":"${'a'.repeat(80)}"}}]}\n\n`
    for (const pieces of [
      [text, failure],
      [failure, text],
    ]) {
      t.ok((await charge('text/event-stream', pieces)) > charged, `beside text, ${failure}`)
    }
  }
  for (const body of [`{"error":${overloaded}}`, ` \n${ofAnthropic}`]) {
    t.equal(await charge('application/json', [body]), 0, body)
    const answer = body.replace(/\}$/, `,"choices":[{"message":{"content":"${'a'.repeat(80)}"}}]}`)
    t.ok((await charge('application/json', [answer])) > charged, answer)
  }
  // A server may repeat what its client sent.
  for (const sent of [
    `"metadata":{"error":${overloaded}}`,
    `"instructions":${JSON.stringify(`data: {"error":${overloaded}}\n\nerror: {`)}`,
    '"error":null',
  ]) {
    t.ok((await charge('text/event-stream', [created(sent)])) >= charged, sent)
    t.ok((await charge('application/json', [`{"id":"",${sent}}`])) >= charged, sent)
  }
})

const answers = [
  ...[{ n: 2 }, { n: '2' }, { n: 2 }, { n_cmpl: 2 }, { best_of: 3 }, { num_return_sequences: 2 }],
  ...[{ N: 2 }, { n: 1, n_: 2 }, { n: [2] }, { n: 1, stream: true, best_of: 2 }],
]
const prompts = [{ prompt: ['a', 'b'] }, { prompt: [[1], [2]] }, { prompt: ['a'], n: 2 }]

test('more answers than a server reports are refused', async (t, gateway) => {
  for (const subscription of ['counts', 'reserves']) {
    const { key } = await gateway.mint({ subscription })
    const ask = (at: string, fields: object, model = 'lone') =>
      gateway.ask(at, key, { method: 'POST', body: JSON.stringify({ model, ...fields }) })
    for (const [operation, body, more] of [
      ['/v1/chat/completions', { messages: [] }, answers],
      ['/v1/completions', { prompt: 'a' }, [...answers, ...prompts]],
    ] as const) {
      for (const at of [operation, `/llm/lone${operation}`]) {
        for (const fields of more) {
          const { status, text } = await ask(at, { ...body, ...fields })
          t.equal(status, 400, `${at} ${JSON.stringify(fields)}: ${text}`)
          t.match(text, /invalid_body/)
        }
        const padded = await ask(at, { ...body, n: 2, user: 'x'.repeat(100_000) })
        t.match(padded.text, /2 answers.*\(n, n_cmpl, best_of, prompt\)/, at)
        for (const fields of [{}, { n: 1 }, { n: null, best_of: 1 }, { prompt: ['a'] }]) {
          const { status, text } = await ask(at, { ...body, ...fields })
          t.equal(status, 200, `${at} ${JSON.stringify(fields)}: ${text}`)
          await gateway.settled()
        }
      }
      t.equal((await ask(operation, { ...body, n: 2 }, 'sim')).status, 200)
      await gateway.settled()
    }
    const uncounted = await ask('/llm/lone/v1/responses', { input: 'a', n: 2 })
    t.equal(uncounted.status, 200, uncounted.text)
  }
})

test('one that is refused takes nothing, and one that is asked about twice takes one', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'takes' })
  const body = (n: number) => JSON.stringify({ model: 'lone', messages: [], n })
  const statuses: number[] = []
  for (const n of [2, 1, 2, 1, 1]) {
    const at = '/llm/lone/v1/chat/completions'
    statuses.push((await gateway.ask(at, key, { method: 'POST', body: body(n) })).status)
  }
  t.strictSame(statuses, [400, 200, 400, 200, 429])
})
