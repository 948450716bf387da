/** OpenAI's responses. */

import { type Answer, madeAt, write } from './words.ts'

export const responses: Answer = (body) => {
  const { pieces, text, input, output, total } = write(body, body.max_output_tokens)
  const item = { id: 'msg_sample', type: 'message', role: 'assistant', status: 'completed' }
  const part = { type: 'output_text', text, annotations: [] }
  const base = { id: 'resp_sample', object: 'response', created_at: madeAt }
  const usage = { input_tokens: input, output_tokens: output, total_tokens: total }
  const begun = { ...base, model: body.model, status: 'in_progress', output: [] }
  const whole = { ...begun, status: 'completed', output: [{ ...item, content: [part] }], usage }
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  const events = [
    { type: 'response.created', response: begun },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...pieces.map((delta) => ({ type: 'response.output_text.delta', ...place, delta })),
    { type: 'response.output_text.done', ...place, text },
    { type: 'response.output_item.done', output_index: 0, item: whole.output[0] },
    { type: 'response.completed', response: whole },
  ]
  return { whole, events: events.map((event, i) => ({ ...event, sequence_number: i })) }
}
