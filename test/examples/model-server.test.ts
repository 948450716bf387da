import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import t, { type Test } from 'tap'

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

  await t.rejects(openai.models.retrieve('nothing'), { message: /^404/ })
  t.equal((await fetch(`${origin}/v1/messages`, { method: 'POST', body: '{' })).status, 400)
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
