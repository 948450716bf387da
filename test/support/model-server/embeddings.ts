/** `POST /v1/embeddings`. */

import { createHash } from 'node:crypto'
import type { Dialect } from './dialect.ts'
import { usageField } from './usage.ts'

const DEFAULT_DIMENSIONS = 8
const MOST_DIMENSIONS = 4096

/**
 * OpenAI embeddings: the same input gives the same vector of `dimensions` numbers (8 by default).
 * `encoding_format: "base64"` is supported, because OpenAI's client requests it.
 */
export const embeddings: Dialect = {
  promptFields: ['input'],
  requiredFields: ['input'],
  limitFields: [],
  whole: ({ body, model, ask, tokens }) => {
    const wanted = Number(body.dimensions ?? DEFAULT_DIMENSIONS)
    const dimensions = Math.max(1, Math.min(Math.floor(wanted) || 1, MOST_DIMENSIONS))
    const isBase64 = body.encoding_format === 'base64'
    // Nothing is generated, so any tokens beyond the input are counted as input.
    const prompt = ask.totalTokens ?? tokens.prompt
    return {
      object: 'list',
      data: inputsOf(body.input).map((input, index) => {
        const vector = embed(input, dimensions)
        const embedding = isBase64 ? Buffer.from(vector.buffer).toString('base64') : [...vector]
        return { object: 'embedding', index, embedding }
      }),
      model,
      ...usageField(ask, { prompt_tokens: prompt, total_tokens: prompt }),
    }
  },
}

/** One text, several texts, one list of token numbers, or several such lists. */
function inputsOf(input: unknown): readonly unknown[] {
  return Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]
}

/** A vector of length 1, derived from a hash of the input. */
function embed(input: unknown, dimensions: number): Float32Array {
  const digest = createHash('sha256').update(JSON.stringify(input)).digest()
  const vector = new Float32Array(dimensions)
  for (let index = 0; index < dimensions; index++) {
    vector[index] = (digest[index % digest.length] ?? 0) - 127.5 + index / dimensions
  }
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}
