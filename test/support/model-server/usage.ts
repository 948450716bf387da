/** The usage that a model reports: correct, or broken as requested. */

import type { Ask } from './ask.ts'
import { isJson, type Json } from './dialect.ts'

/** Tokens of one request and its answer. */
export interface Tokens {
  readonly prompt: number
  readonly completion: number
}

const RAW_MARK = 'sim: raw usage stands here'

/** Usage with OpenAI's names for chat and completions. */
export function chatUsage({ prompt, completion }: Tokens): Json {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  }
}

/** The field `usage` to spread into an answer: absent for "none", otherwise as requested. */
export function usageField(ask: Ask, usage: Json): { usage?: unknown } {
  if (ask.usageRaw !== undefined) return { usage: RAW_MARK }
  if (!('usage' in ask)) return { usage }
  if (ask.usage === 'none') return {}
  if (ask.usage === 'null') return { usage: null }
  if (ask.usage === 'text') return { usage: asText(usage) }
  return { usage: ask.usage }
}

/** Serializes an answer; `usageRaw` is inserted here, as text that may be invalid JSON. */
export function toText(payload: Json, ask: Ask): string {
  const text = JSON.stringify(payload)
  const { usageRaw } = ask
  if (usageRaw === undefined) return text
  return text.replace(`"usage":"${RAW_MARK}"`, () => `"usage":${usageRaw}`)
}

/** The usage in a payload: at its top, or in its `response` or `message`. */
export function usageIn(payload: Json): unknown {
  for (const place of [payload, payload.response, payload.message]) {
    if (isJson(place) && place.usage !== undefined && place.usage !== null) return place.usage
  }
  return undefined
}

/**
 * The tokens that a usage object reports; a field that is not a whole number of at least 0 counts
 * as none.
 */
export function readReported(usage: Json): { completionTokens: number; totalTokens: number } {
  const completionTokens = count(usage.completion_tokens ?? usage.output_tokens)
  const promptTokens = count(usage.prompt_tokens ?? usage.input_tokens)
  const totalTokens =
    usage.total_tokens === undefined ? promptTokens + completionTokens : count(usage.total_tokens)
  return { completionTokens, totalTokens }
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0
}

function asText(usage: Json): Json {
  const numbers = Object.entries(usage).filter(([, value]) => typeof value === 'number')
  return Object.fromEntries(numbers.map(([name, value]) => [name, String(value)]))
}
