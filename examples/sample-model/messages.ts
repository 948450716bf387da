/** Anthropic's messages. */

import { type Answer, write } from './words.ts'

export const messages: Answer = (body) => {
  const { pieces, text, input, output } = write(body, body.max_tokens)
  const base = { id: 'msg_sample', type: 'message', role: 'assistant', model: body.model }
  const usage = { input_tokens: input, output_tokens: output }
  const end = { stop_reason: 'end_turn', stop_sequence: null }
  const deltas = pieces.map((text) => ({ type: 'text_delta', text }))
  return {
    whole: { ...base, content: [{ type: 'text', text }], ...end, usage },
    events: [
      { type: 'message_start', message: { ...base, content: [], usage } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index: 0, delta })),
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: end, usage: { output_tokens: output } },
      { type: 'message_stop' },
    ],
  }
}

export const countTokens: Answer = (body) => ({ whole: { input_tokens: write(body, 0).input } })
