/** OpenAI's chat and completions. */

import { type Answer, asksForUsage, chatUsage, type Json, madeAt, write } from './words.ts'

const end = 'data: [DONE]\n\n'

export const chat: Answer = (body) => {
  const said = write(body, body.max_completion_tokens ?? body.max_tokens)
  const usage = chatUsage(said)
  const base = { id: 'chatcmpl-sample', created: madeAt, model: body.model }
  const whole = (object: string, choices: readonly Json[]) => ({ ...base, object, choices })
  const chunk = (delta: Json, finish_reason: string | null = null) =>
    whole('chat.completion.chunk', [{ index: 0, delta, finish_reason }])
  const message = { role: 'assistant', content: said.text }
  return {
    whole: { ...whole('chat.completion', [{ index: 0, message, finish_reason: 'stop' }]), usage },
    events: [
      chunk({ role: 'assistant', content: '' }),
      ...said.pieces.map((content) => chunk({ content })),
      chunk({}, 'stop'),
      ...(asksForUsage(body) ? [{ ...whole('chat.completion.chunk', []), usage }] : []),
    ],
    end,
  }
}

export const completions: Answer = (body) => {
  const said = write(body, body.max_tokens)
  const usage = chatUsage(said)
  const base = { id: 'cmpl-sample', object: 'text_completion', created: madeAt, model: body.model }
  const part = (text: string, finish_reason: string | null = null) => ({
    ...base,
    choices: [{ index: 0, text, logprobs: null, finish_reason }],
  })
  return {
    whole: { ...part(said.text, 'stop'), usage },
    events: [
      ...said.pieces.map((text) => part(text)),
      part('', 'stop'),
      ...(asksForUsage(body) ? [{ ...base, choices: [], usage }] : []),
    ],
    end,
  }
}
