/** The sample model's words, and the parts that all of its answers share. */

export type Json = Record<string, unknown>

/** An answer to a POST. `events` are sent instead of `whole` if the request asks for a stream. */
export interface Written {
  readonly whole: Json | Buffer
  /** The content type of `whole`, if it is not JSON. */
  readonly type?: string
  readonly events?: readonly Json[]
  /** The last line of the stream, if its API has one. */
  readonly end?: string
}

export type Answer = (body: Json) => Written

/** The creation time of everything in the sample, in Unix seconds. */
export const madeAt = 1_704_067_200

/** Agents allow tens of thousands, but a person reads the answer. */
const maxWords = 64
const usualWords = 16
const vocabulary = 'a small river carries quiet words past the old stone mill at dawn'.split(' ')
/** The fields of all operations that may contain a text. */
const asking = [
  ...['system', 'instructions', 'messages', 'input', 'prompt', 'tools'],
  ...['query', 'documents', 'text_1', 'text_2', 'queries'],
]

/** The words of an answer, at most `most`, and the usage. A word is a token. */
export function write(body: Json, most: unknown) {
  const length = typeof most === 'number' ? Math.max(0, Math.min(most, maxWords)) : usualWords
  const pieces = Array.from({ length }, (_, i) => ` ${vocabulary[i % vocabulary.length]}`)
  const input = countWords(asking.flatMap((name) => body[name] ?? []))
  return { pieces, text: pieces.join(''), input, output: length, total: input + length }
}

/** The number of words in a value, at any depth. */
export function countWords(value: unknown): number {
  return JSON.stringify(value)?.match(/\w+/g)?.length ?? 0
}

/** Usage as chat, completions and embeddings report it. */
export function chatUsage({ input, output, total }: Record<'input' | 'output' | 'total', number>) {
  return { prompt_tokens: input, completion_tokens: output, total_tokens: total }
}

/** Whether the request asks for usage at the end of its stream. */
export function asksForUsage(body: Json): boolean {
  return (body.stream_options as Json | undefined)?.include_usage === true
}
