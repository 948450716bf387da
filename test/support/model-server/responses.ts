/** `POST /v1/responses`. */

import type { Answer } from './answer.ts'
import type { Dialect, Json, StreamEvent } from './dialect.ts'
import { usageField } from './usage.ts'

/** OpenAI Responses, whole and streamed; the last event of a stream contains the whole response. */
export const responses: Dialect = {
  promptFields: ['instructions', 'input'],
  requiredFields: ['input', 'prompt'],
  limitFields: ['max_output_tokens'],
  whole: finished,
  *events(answer) {
    let number = 0
    const event = (type: string, fields: Json): StreamEvent => ({
      event: type,
      data: { type, sequence_number: number++, ...fields },
    })
    const place = { item_id: messageId(answer), output_index: 0, content_index: 0 }
    const text = answer.pieces.join('')
    yield event('response.created', { response: response(answer, 'in_progress') })
    yield event('response.in_progress', { response: response(answer, 'in_progress') })
    const opened = { ...message(answer, 'in_progress'), content: [] }
    yield event('response.output_item.added', { output_index: 0, item: opened })
    yield event('response.content_part.added', { ...place, part: part('') })
    for (const delta of answer.pieces) {
      const piece = event('response.output_text.delta', { ...place, delta, logprobs: [] })
      yield { ...piece, isPiece: true }
    }
    yield event('response.output_text.done', { ...place, text, logprobs: [] })
    yield event('response.content_part.done', { ...place, part: part(text) })
    const item = message(answer, finalStatus(answer))
    yield event('response.output_item.done', { output_index: 0, item })
    yield event(`response.${finalStatus(answer)}`, { response: finished(answer) })
  },
}

function finished(answer: Answer): Json {
  const { prompt, completion } = answer.tokens
  const usage = {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + completion,
  }
  const status = finalStatus(answer)
  return {
    ...response(answer, status),
    incomplete_details: answer.isCut ? { reason: 'max_output_tokens' } : null,
    output: [message(answer, status)],
    ...usageField(answer.ask, usage),
  }
}

function response({ id, createdS, model, body }: Answer, status: string): Json {
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: createdS,
    status,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: body.previous_response_id ?? null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: body.temperature ?? 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: body.top_p ?? 1,
    truncation: 'disabled',
    usage: null,
  }
}

function message(answer: Answer, status: string): Json {
  const content = [part(answer.pieces.join(''))]
  return { id: messageId(answer), type: 'message', status, role: 'assistant', content }
}

function part(text: string): Json {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

function messageId(answer: Answer): string {
  return `msg_${answer.id}`
}

function finalStatus(answer: Answer): string {
  return answer.isCut ? 'incomplete' : 'completed'
}
