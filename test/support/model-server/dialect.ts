/** The format of one endpoint: how it reads a request, and how it writes an answer. */

import type { Answer } from './answer.ts'

/** A JSON object with unverified fields. */
export type Json = Record<string, unknown>

/** One server-sent event; `event` is the optional event line, `data` the data line. */
export interface StreamEvent {
  readonly event?: string
  /** Whether it has a piece of the answer's text: one token. */
  readonly isPiece?: boolean
  readonly data: Json | '[DONE]'
}

/** The server's description of one inference endpoint. */
export interface Dialect {
  /** The fields that the model would read; their words are the prompt tokens. */
  readonly promptFields: readonly string[]
  /** At least one of these must be present, or the request is refused with 400. */
  readonly requiredFields: readonly string[]
  /** The fields that limit the length of the answer, in tokens; the first one present applies. */
  readonly limitFields: readonly string[]
  /** The answer as one JSON object. */
  whole(answer: Answer): Json
  /** The answer as a stream; a dialect without it ignores `stream`. */
  events?(answer: Answer): Iterable<StreamEvent>
}

/** Whether a value is a JSON object, not an array and not null. */
export function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
