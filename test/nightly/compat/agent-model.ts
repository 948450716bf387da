/**
 * A model server for coding agents, on OpenAI's chat and responses and on Anthropic's messages. It
 * asks for one tool call, a shell command, and then says what the command has printed.
 */

import { once } from 'node:events'
import http, { type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

type Json = Record<string, unknown>

/** What agents call the tool that runs a command. */
const shells =
  /^(bash|shell|exec_command|local_shell|run_shell_command|run_commands?|execute_command|developer__shell|terminal|run_terminal_command)$/i
/** In input and output, of every response. */
const [input, output] = [90, 10]

export interface AgentModel {
  readonly url: string
  /** Tokens of all responses so far. */
  readonly said: () => number
}

/** `command` must print `word`. */
export async function startAgentModel(command: string, word: string): Promise<AgentModel> {
  let said = 0
  const server = http.createServer(async (request, response) => {
    const path = (request.url ?? '').replace(/\?.*/, '')
    if (request.method !== 'POST') return reply(response, { object: 'list', data: [{ id: 'sim' }] })
    const body = (await json(request)) as Json
    const text = JSON.stringify(body)
    if (path.endsWith('count_tokens')) return reply(response, { input_tokens: input })
    const seen = text.includes(word)
    said += input + output
    const tool = seen ? undefined : shellOf(body.tools)
    const call = tool && { name: tool.name, args: argumentsFor(tool.schema, command) }
    const words = seen ? `The word is ${word}.` : 'Done.'
    const write = path.endsWith('/messages')
      ? messages
      : path.endsWith('/responses')
        ? responses
        : chat
    const { whole, events } = write(call, words)
    if (body.stream !== true) return reply(response, whole)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const each of events) {
      const name = typeof each.type === 'string' ? `event: ${each.type}\n` : ''
      response.write(`${name}data: ${JSON.stringify(each)}\n\n`)
    }
    response.end(write === chat ? 'data: [DONE]\n\n' : undefined)
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    said: () => said,
  }
}

function reply(response: ServerResponse, body: Json): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

interface Call {
  readonly name: string
  readonly args: string
}

interface Written {
  readonly whole: Json
  readonly events: readonly Json[]
}

/** The first tool that runs commands, in whichever of the three formats. */
function shellOf(tools: unknown): { name: string; schema: Json } | undefined {
  for (const each of Array.isArray(tools) ? (tools as Json[]) : []) {
    const tool = (each.function ?? each) as Json
    const schema = (tool.parameters ?? tool.input_schema) as Json | undefined
    if (typeof tool.name === 'string' && shells.test(tool.name) && schema) {
      return { name: tool.name, schema }
    }
  }
  return undefined
}

/** The command, and something for each other field that is required. */
function argumentsFor(schema: Json, command: string): string {
  const fields = Object.entries((schema.properties ?? {}) as Record<string, Json>)
  const required = new Set(schema.required as string[] | undefined)
  const values = fields.flatMap(([name, { type, enum: choices }]) => {
    if (name === 'commands') return [[name, [command]]]
    if (/^(command|cmd|script)$/.test(name)) {
      return [[name, type === 'array' ? ['bash', '-c', command] : command]]
    }
    if (!required.has(name)) return []
    const value = { boolean: false, number: 60_000, integer: 60_000, array: [], object: {} }
    const usual = value[type as keyof typeof value] ?? 'print the word'
    return [[name, Array.isArray(choices) ? choices[0] : usual]]
  })
  return JSON.stringify(Object.fromEntries(values))
}

function chat(call: Call | undefined, words: string): Written {
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
  const head = { id: 'chatcmpl-1', created: 1, model: 'sim' }
  const part = call && {
    id: 'call_1',
    type: 'function',
    function: { name: call.name, arguments: call.args },
  }
  const message = {
    role: 'assistant',
    content: call ? null : words,
    ...(part && { tool_calls: [part] }),
  }
  const end = { index: 0, finish_reason: call ? 'tool_calls' : 'stop' }
  const delta = part ? { ...message, tool_calls: [{ index: 0, ...part }] } : message
  const chunk = { ...head, object: 'chat.completion.chunk' }
  return {
    whole: { ...head, object: 'chat.completion', choices: [{ ...end, message }], usage },
    events: [
      { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] },
      { ...chunk, choices: [{ ...end, delta: {} }] },
      { ...chunk, choices: [], usage },
    ],
  }
}

function messages(call: Call | undefined, words: string): Written {
  const block = call
    ? { type: 'tool_use', id: 'toolu_1', name: call.name, input: JSON.parse(call.args) }
    : { type: 'text', text: words }
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'sim',
    stop_sequence: null,
  }
  const reason = { stop_reason: call ? 'tool_use' : 'end_turn', stop_sequence: null }
  const usage = { input_tokens: input, output_tokens: output }
  const delta = call
    ? { type: 'input_json_delta', partial_json: call.args }
    : { type: 'text_delta', text: words }
  const start = {
    ...message,
    stop_reason: null,
    content: [],
    usage: { ...usage, output_tokens: 1 },
  }
  const empty = call ? { ...block, input: {} } : { ...block, text: '' }
  return {
    whole: { ...message, ...reason, content: [block], usage },
    events: [
      { type: 'message_start', message: start },
      { type: 'content_block_start', index: 0, content_block: empty },
      { type: 'content_block_delta', index: 0, delta },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: reason, usage: { output_tokens: output } },
      { type: 'message_stop' },
    ],
  }
}

function responses(call: Call | undefined, words: string): Written {
  const item = call
    ? {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_1',
        name: call.name,
        arguments: call.args,
      }
    : { type: 'message', id: 'msg_1', role: 'assistant', content: [outputText(words)] }
  const done = { ...item, status: 'completed' }
  const usage = {
    ...{ input_tokens: input, output_tokens: output, total_tokens: input + output },
    ...{
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  }
  const head = { id: 'resp_1', object: 'response', created_at: 1, model: 'sim', output: [] }
  const whole = { ...head, status: 'completed', output: [done], usage }
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  const texts = [
    { type: 'response.content_part.added', ...place, part: outputText('') },
    { type: 'response.output_text.delta', ...place, delta: words, logprobs: [] },
    { type: 'response.output_text.done', ...place, text: words, logprobs: [] },
    { type: 'response.content_part.done', ...place, part: outputText(words) },
  ]
  const calls = call && [
    {
      type: 'response.function_call_arguments.delta',
      item_id: 'fc_1',
      output_index: 0,
      delta: call.args,
    },
    {
      type: 'response.function_call_arguments.done',
      item_id: 'fc_1',
      output_index: 0,
      arguments: call.args,
    },
  ]
  const opened = { ...item, status: 'in_progress', ...(call ? { arguments: '' } : { content: [] }) }
  const events: Json[] = [
    { type: 'response.created', response: { ...head, status: 'in_progress' } },
    { type: 'response.output_item.added', output_index: 0, item: opened },
    ...(calls ?? texts),
    { type: 'response.output_item.done', output_index: 0, item: done },
    { type: 'response.completed', response: whole },
  ]
  return { whole, events: events.map((each, at) => ({ ...each, sequence_number: at })) }
}

function outputText(text: string): Json {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}
