import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { firstRequests } from '../support/first-requests.ts'

const program = fileURLToPath(new URL('../../examples/model-server.ts', import.meta.url))
const asked = [{ role: 'user' as const, content: 'hello dear model' }]

/** Waits for the line with its address. */
async function originOf(t: Test, child: ChildProcess): Promise<string> {
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = await once(createInterface(child.stdout!), 'line')
  return String(line).replace('model server listening on ', '')
}

t.test('the official clients can read every answer', async (t) => {
  const origin = await originOf(t, spawn(process.execPath, [program, '0']))
  const openai = new OpenAI({ apiKey: 'none', baseURL: `${origin}/v1`, maxRetries: 0 })
  const anthropic = new Anthropic({ apiKey: 'none', baseURL: origin, maxRetries: 0 })
  const model = 'sim-small'

  const chat = await openai.chat.completions.create({ model, messages: asked, max_tokens: 3 })
  t.match(chat.choices, [{ message: { content: ' a small river' }, finish_reason: 'stop' }])
  const { prompt_tokens = 0, completion_tokens = 0, total_tokens = 0 } = chat.usage ?? {}
  t.equal(completion_tokens, 3)
  t.equal(total_tokens, prompt_tokens + 3)
  const include = { stream_options: { include_usage: true } }
  const streamed = await openai.chat.completions
    .stream({ model, messages: asked, max_tokens: 3, ...include })
    .finalChatCompletion()
  t.match(streamed.choices, [{ message: { content: ' a small river' } }])
  t.strictSame(streamed.usage, chat.usage)
  const plain = await openai.chat.completions.create({ model, messages: asked, stream: true })
  for await (const { choices, usage } of plain) {
    t.equal(choices.length, 1)
    t.notOk(usage)
  }

  const response = await openai.responses.create({ model, input: 'hello', max_output_tokens: 2 })
  t.equal(response.output_text, ' a small')
  const final = await openai.responses.stream({ model, input: 'hello' }).finalResponse()
  t.match(final.usage, { output_tokens: 16 })
  const { data } = await openai.embeddings.create({ model, input: ['a', 'b'] })
  t.equal(data.length, 2)
  t.match((await openai.models.list()).data, [{ id: model }, { id: 'sim-large' }])

  const message = await anthropic.messages.create({ model, max_tokens: 2, messages: asked })
  t.match(message, { content: [{ text: ' a small' }], usage: { output_tokens: 2 } })
  const last = await anthropic.messages
    .stream({ model, max_tokens: 2, messages: asked })
    .finalMessage()
  t.match(last, { content: [{ text: ' a small' }], usage: message.usage })

  const completion = await openai.completions.create({ model, prompt: 'hello', max_tokens: 2 })
  t.match(completion, { choices: [{ text: ' a small' }], usage: { total_tokens: 3 } })
  let pieces = ''
  for await (const { choices } of await openai.completions.create({
    ...{ model, prompt: 'hello', max_tokens: 2, stream: true },
  })) {
    pieces += choices[0]?.text
  }
  t.equal(pieces, ' a small')
  const counted = await anthropic.messages.countTokens({ model, messages: asked })
  t.equal(counted.input_tokens, message.usage.input_tokens)
  t.equal((await openai.images.generate({ model, prompt: 'a mill', n: 2 })).data?.length, 2)
  t.match((await openai.moderations.create({ model, input: 'a' })).results, [{ flagged: false }])
  const speech = await openai.audio.speech.create({ model, voice: 'alloy', input: 'hello' })
  t.match(Buffer.from(await speech.arrayBuffer()).toString('latin1', 0, 12), /^RIFF....WAVE$/s)
  const file = new File(['sound'], 'sound.wav')
  t.match(await openai.audio.transcriptions.create({ model, file }), { text: / a small river/ })
  t.match(await openai.models.retrieve(model), { id: model })
})

t.test('answers what each documented agent sends first', async (t) => {
  const origin = await originOf(t, spawn(process.execPath, [program, '0']))
  for (const { agent, path, headers, body, end } of firstRequests) {
    const content = JSON.stringify({ model: 'sim-small', ...body })
    const response = await fetch(origin + path, {
      ...{ method: 'POST', body: content },
      ...(headers && { headers }),
    })
    t.equal(response.status, 200, agent)
    const text = await response.text()
    t.match(text, end, agent)
    t.ok(text.length < 30_000, `${agent}: somebody reads the answer`)
  }
})

t.test('answers in the form of each API', async (t) => {
  const origin = await originOf(t, spawn(process.execPath, [program, '0']))
  const ask = async (method: string, path: string, body?: string) => {
    const response = await fetch(origin + path, { method, ...(body && { body }) })
    return { status: response.status, body: await response.json() }
  }
  const documents = ['nothing', 'a quiet mill', { text: 'the mill' }]
  const reranked = JSON.stringify({ model: 'm', query: 'quiet mill', documents, top_n: 2 })
  t.match(await ask('POST', '/v1/rerank', reranked), {
    status: 200,
    body: {
      results: [
        { index: 1, document: { text: 'a quiet mill' }, relevance_score: 1 },
        { index: 2, document: { text: 'the mill' }, relevance_score: 0.5 },
      ],
      usage: { total_tokens: 9 },
    },
  })
  const scored = JSON.stringify({ model: 'm', text_1: 'a mill', text_2: ['mill', 'river'] })
  t.match(await ask('POST', '/v1/score', scored), {
    body: {
      object: 'list',
      data: [
        { index: 0, score: 0.5 },
        { index: 1, score: 0 },
      ],
    },
  })
  t.match(await ask('POST', '/v1/tokenize', '{"prompt":"a b"}'), { body: { count: 2 } })
  t.match(await ask('POST', '/v1/detokenize', '{"tokens":[1,2]}'), {
    body: { prompt: 'word word' },
  })
  t.match(await ask('GET', '/v1/files?limit=2'), { status: 200, body: { data: [] } })
  t.match(await ask('GET', '/v1/models?limit=1'), { body: { data: [{ id: 'sim-small' }, {}] } })

  const lost = { type: 'not_found_error', message: String }
  const anthropic = { type: 'error', error: lost }
  for (const [method, path, body] of [
    ['POST', '/v1/messages/batches?beta=true', anthropic],
    ['GET', '/v1/messages', anthropic],
    ['GET', '/v1/models/nothing', { error: { ...lost, param: null } }],
    ['POST', '/v1/messagesX', { error: lost }],
    ['DELETE', '/v1/chat/completions', { error: lost }],
    ['POST', '/', { error: lost }],
  ] as const) {
    t.match(await ask(method, path), { status: 404, body }, `${method} ${path}`)
  }
  for (const body of ['{', '[]', 'null', '7', '']) {
    const invalid = { type: 'invalid_request_error' }
    t.match(await ask('POST', '/v1/messages', body), {
      status: 400,
      body: { type: 'error', error: invalid },
    })
    t.match(await ask('POST', '/v1/responses', body), { status: 400, body: { error: invalid } })
  }
})

t.test('a failed start is reported, and the program ends on request', async (t) => {
  const spawned = spawn(process.execPath, [program, '0'])
  const origin = await originOf(t, spawned)
  const taken = spawn(process.execPath, [program, new URL(origin).host])
  t.match(await text(taken.stderr), /^model server: .*EADDRINUSE/)
  spawned.kill('SIGTERM')
  t.strictSame(await once(spawned, 'exit'), [0, null])

  const env = { ...process.env, MODEL_SERVER_ADDRESS: '127.0.0.1:0' }
  const forked = fork(program, { env, silent: true })
  await originOf(t, forked)
  forked.disconnect()
  t.strictSame(await once(forked, 'exit'), [0, null])
})
