/** `POST /v1/messages`. */

import type { Answer } from './answer.ts'
import type { Dialect, Json, StreamEvent } from './dialect.ts'
import { type Tokens, usageField } from './usage.ts'

/** Anthropic messages, whole and streamed; the stream reports usage at its start and its end. */
export const messages: Dialect = {
  promptFields: ['system', 'messages'],
  requiredFields: ['messages'],
  limitFields: ['max_tokens'],
  whole: (answer) => ({
    ...message(answer),
    content: [{ type: 'text', text: answer.pieces.join('') }],
    stop_reason: stopReason(answer),
    ...usageField(answer.ask, usageOf(answer.tokens)),
  }),
  *events(answer) {
    const { ask, tokens } = answer
    const opening = usageField(ask, usageOf({ prompt: tokens.prompt, completion: 0 }))
    yield event('message_start', { message: { ...message(answer), ...opening } })
    yield event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
    yield event('ping', {})
    for (const text of answer.pieces) {
      const delta = event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })
      yield { ...delta, isPiece: true }
    }
    yield event('content_block_stop', { index: 0 })
    yield event('message_delta', {
      delta: { stop_reason: stopReason(answer), stop_sequence: null },
      ...usageField(ask, usageOf(tokens)),
    })
    yield event('message_stop', {})
  },
}

function event(type: string, fields: Json): StreamEvent {
  return { event: type, data: { type, ...fields } }
}

function message({ id, model }: Answer): Json {
  return {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  }
}

function usageOf({ prompt, completion }: Tokens): Json {
  return { input_tokens: prompt, output_tokens: completion }
}

function stopReason(answer: Answer): string {
  return answer.isCut ? 'max_tokens' : 'end_turn'
}
