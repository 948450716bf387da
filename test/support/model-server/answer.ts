/** Creates an answer: its words, its length in bytes and the tokens that it reports. */

import { randomUUID } from 'node:crypto'
import type { Ask } from './ask.ts'
import { readFlag } from './body.ts'
import { type Dialect, isJson, type Json } from './dialect.ts'
import { Refusal } from './refusal.ts'
import type { Tokens } from './usage.ts'

/** An answer, independent of any dialect. */
export interface Answer {
  readonly id: string
  readonly createdS: number
  readonly model: string
  readonly body: Json
  readonly ask: Ask
  /** The text in the pieces that a stream sends, one token each. */
  readonly pieces: readonly string[]
  /** Whether the caller's own limit cut the answer short. */
  readonly isCut: boolean
  readonly tokens: Tokens
  /** Whether a stream ends with a usage chunk (`stream_options.include_usage`). */
  readonly includesUsage: boolean
  /** Whether every chunk contains the usage so far (vLLM's `continuous_usage_stats`). */
  readonly usageEveryChunk: boolean
}

const DEFAULT_WORDS = 16
const vocabulary = 'a small river carries quiet words past the old stone mill at dawn'.split(' ')

/** Answers a request body. Throws Refusal 400 for a body that the dialect does not accept. */
export function createAnswer(dialect: Dialect, body: Json, ask: Ask, ids: readonly string[]) {
  const { requiredFields, promptFields, limitFields } = dialect
  if (!requiredFields.some((name) => body[name] !== undefined && body[name] !== null)) {
    const names = requiredFields.join(' or ')
    throw new Refusal(400, 'missing_required_parameter', `Missing required parameter: ${names}`)
  }
  const limit = limitFields.map((name) => body[name]).find((value) => typeof value === 'number')
  const wanted = ask.words ?? DEFAULT_WORDS
  const words = Math.min(wanted, Math.max(0, Math.floor(limit ?? wanted)))
  const options = isJson(body.stream_options) ? body.stream_options : {}
  const includesUsage = readFlag(options, 'include_usage')
  const answer: Answer = {
    id: randomUUID().replaceAll('-', ''),
    createdS: Math.floor(Date.now() / 1000),
    model: typeof body.model === 'string' ? body.model : (ids[0] ?? 'sim'),
    body,
    ask,
    pieces: writePieces(words, ask.answerBytes ?? 0),
    isCut: words < wanted,
    tokens: spend(ask, countWords(promptFields.map((name) => body[name])), words),
    includesUsage,
    usageEveryChunk:
      ask.usageEveryChunk ?? (includesUsage && readFlag(options, 'continuous_usage_stats')),
  }
  return answer
}

/**
 * Counts the words in all strings of a JSON value; a number is one token. Of objects only `text`,
 * `content`, `input` and `output` are read. A loop, because bodies may be nested deeper than the
 * stack.
 */
export function countWords(value: unknown): number {
  const open = [value]
  let words = 0
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next === 'string') words += next.match(/\S+/g)?.length ?? 0
    else if (typeof next === 'number') words++
    else if (Array.isArray(next)) for (const item of next) open.push(item)
    else if (isJson(next)) open.push(next.text, next.content, next.input, next.output)
  }
  return words
}

/** `words` pieces, padded with dots to `bytes` in all, spread evenly over the chunks. */
function writePieces(words: number, bytes: number): readonly string[] {
  const pieces: string[] = []
  let length = 0
  for (let index = 0; index < words; index++) {
    const piece = `${index === 0 ? '' : ' '}${vocabulary[index % vocabulary.length]}`
    pieces.push(piece)
    length += piece.length
  }
  const missing = Math.max(0, bytes - length)
  if (missing === 0) return pieces
  if (words === 0) return ['.'.repeat(missing)]
  const share = '.'.repeat(Math.floor(missing / words))
  const rest = '.'.repeat(missing % words)
  return pieces.map((piece, index) => piece + share + (index === words - 1 ? rest : ''))
}

/**
 * Tokens are words, unless a total was requested; then the completion keeps its words if possible.
 */
function spend(ask: Ask, promptWords: number, answerWords: number): Tokens {
  if (ask.totalTokens === undefined) {
    return { prompt: ask.promptTokens ?? promptWords, completion: answerWords }
  }
  const completion = Math.min(answerWords, ask.totalTokens)
  return { prompt: ask.totalTokens - completion, completion }
}
