/** `POST /v1/chat/completions` and the older `POST /v1/completions`. */

import type { Answer } from './answer.ts'
import type { Dialect, Json, StreamEvent } from './dialect.ts'
import { chatUsage, usageField } from './usage.ts'

/** OpenAI chat completions, whole and streamed, as vLLM serves them. */
export const chat: Dialect = {
  promptFields: ['messages'],
  requiredFields: ['messages'],
  limitFields: ['max_completion_tokens', 'max_tokens'],
  whole: (answer) => ({
    id: `chatcmpl-${answer.id}`,
    object: 'chat.completion',
    created: answer.createdS,
    model: answer.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answer.pieces.join(''), refusal: null },
        logprobs: null,
        finish_reason: finishReason(answer),
      },
    ],
    ...usageField(answer.ask, chatUsage(answer.tokens)),
  }),
  *events(answer) {
    const base = { id: `chatcmpl-${answer.id}`, object: 'chat.completion.chunk' }
    yield* chunks(answer, base, {
      opening: { delta: { role: 'assistant', content: '' } },
      piece: (text) => ({ delta: { content: text } }),
      closing: { delta: {} },
    })
  },
}

/** OpenAI's legacy completions, whole and streamed. */
export const completions: Dialect = {
  promptFields: ['prompt'],
  requiredFields: ['prompt'],
  limitFields: ['max_tokens'],
  whole: (answer) => ({
    id: `cmpl-${answer.id}`,
    object: 'text_completion',
    created: answer.createdS,
    model: answer.model,
    choices: [
      {
        index: 0,
        text: answer.pieces.join(''),
        logprobs: null,
        finish_reason: finishReason(answer),
      },
    ],
    ...usageField(answer.ask, chatUsage(answer.tokens)),
  }),
  *events(answer) {
    yield* chunks(
      answer,
      { id: `cmpl-${answer.id}`, object: 'text_completion' },
      { piece: (text) => ({ text }), closing: { text: '' } },
    )
  },
}

interface ChoiceForm {
  readonly opening?: Json
  piece(text: string): Json
  readonly closing: Json
}

/**
 * The chunks that both endpoints share. With `include_usage` a last chunk without choices contains
 * the usage, and the others have `usage: null`, as OpenAI documents it.
 */
function* chunks(answer: Answer, base: Json, form: ChoiceForm): Iterable<StreamEvent> {
  const { ask, tokens } = answer
  const chunk = (choice: Json, finish: string | null, completion: number): StreamEvent => ({
    data: {
      ...base,
      created: answer.createdS,
      model: answer.model,
      choices: [{ index: 0, ...choice, logprobs: null, finish_reason: finish }],
      ...usageSoFar(answer, completion),
    },
  })
  if (form.opening !== undefined) yield chunk(form.opening, null, 0)
  let sent = 0
  for (const piece of answer.pieces) {
    sent = Math.min(sent + 1, tokens.completion)
    yield { ...chunk(form.piece(piece), null, sent), isPiece: true }
  }
  yield chunk(form.closing, finishReason(answer), tokens.completion)
  if (answer.includesUsage && ask.usage !== 'none') {
    const usage = usageField(ask, chatUsage(tokens))
    yield {
      data: { ...base, created: answer.createdS, model: answer.model, choices: [], ...usage },
    }
  }
  yield { data: '[DONE]' }
}

function usageSoFar(answer: Answer, completion: number): { usage?: unknown } {
  if (answer.usageEveryChunk) {
    return usageField(answer.ask, chatUsage({ prompt: answer.tokens.prompt, completion }))
  }
  return answer.includesUsage && answer.ask.usage !== 'none' ? { usage: null } : {}
}

function finishReason(answer: Answer): string {
  return answer.isCut ? 'length' : 'stop'
}
