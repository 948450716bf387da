/** The form one endpoint speaks in: how it reads a request, and how it writes the same answer. */

import type { Answer } from './answer.ts'

/** A JSON object whose fields nobody has vouched for. */
export type Json = Record<string, unknown>

/** One server-sent event; `event` is the optional event line, `data` the data line. */
export interface StreamEvent {
  readonly event?: string
  readonly data: Json | '[DONE]'
}

/** What the server needs to know of one inference endpoint. */
export interface Dialect {
  /** The fields the model would read; their words are the prompt tokens. */
  readonly promptFields: readonly string[]
  /** Of these at least one must be there, else the request is refused with 400. */
  readonly requiredFields: readonly string[]
  /** The fields that may cap the answer's length, in tokens; the first one present holds. */
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
