/** What a caller may request of the sample model server, and where it is read from. */

import { isJson, type Json } from './dialect.ts'
import { parseLenientJson } from './lenient-json.ts'
import { Refusal } from './refusal.ts'

/** Every field is optional; README.md in this folder describes each. */
export interface Ask {
  readonly words?: number
  readonly totalTokens?: number
  readonly promptTokens?: number
  readonly delayMs?: number
  readonly chunkDelayMs?: number
  readonly answerBytes?: number
  readonly splitBytes?: number
  readonly splitUsageBytes?: number | boolean
  readonly crlf?: boolean
  readonly compress?: 'gzip' | 'auto' | 'none'
  readonly usage?: unknown
  readonly usageRaw?: string
  readonly usageEveryChunk?: boolean
  readonly status?: number
  readonly contentType?: string
  readonly dropAfterChunks?: number
  readonly hangAfterChunks?: number
  readonly hang?: boolean
  readonly echo?: boolean
  readonly foldKeys?: boolean
}

/** The maximum of any delay, in milliseconds; it also ends `hang`. */
export const LONGEST_WAIT_MS = 60_000

const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024

const isFlag = (value: unknown) => typeof value === 'boolean'
const isText = (value: unknown) => typeof value === 'string'
const isWhole = (least: number, most: number) => (value: unknown) =>
  Number.isInteger(value) && Number(value) >= least && Number(value) <= most

const fields: Readonly<Record<keyof Ask, (value: unknown) => boolean>> = {
  words: isWhole(0, 1_000_000),
  totalTokens: isWhole(0, Number.MAX_SAFE_INTEGER),
  promptTokens: isWhole(0, Number.MAX_SAFE_INTEGER),
  delayMs: isWhole(0, LONGEST_WAIT_MS),
  chunkDelayMs: (value) => typeof value === 'number' && value >= 0 && value <= LONGEST_WAIT_MS,
  answerBytes: isWhole(0, LARGEST_ANSWER_BYTES),
  splitBytes: isWhole(1, LARGEST_ANSWER_BYTES),
  splitUsageBytes: (value) => isFlag(value) || isWhole(1, LARGEST_ANSWER_BYTES)(value),
  crlf: isFlag,
  compress: (value) => value === 'gzip' || value === 'auto' || value === 'none',
  usage: () => true,
  usageRaw: isText,
  usageEveryChunk: isFlag,
  status: isWhole(300, 599),
  contentType: isText,
  dropAfterChunks: isWhole(0, Number.MAX_SAFE_INTEGER),
  hangAfterChunks: isWhole(0, Number.MAX_SAFE_INTEGER),
  hang: isFlag,
  echo: isFlag,
  foldKeys: isFlag,
}

/** Reads the header `x-sim`. Throws Refusal 400 if it is not a JSON object of known fields. */
export function readHeaderAsk(header: string | readonly string[] | undefined): Ask {
  if (header === undefined) return {}
  try {
    return checkAsk(parseLenientJson(String(header)))
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid('x-sim is not JSON')
    throw error
  }
}

/** Adds the body's `sim` to the header's fields; the header takes precedence. */
export function readBodyAsk(body: Json, header: Ask): Ask {
  return { ...('sim' in body ? checkAsk(body.sim) : {}), ...header }
}

/**
 * With a misspelled field a test would pass for the wrong reason, so unknown fields are refused.
 */
function checkAsk(value: unknown): Ask {
  if (!isJson(value)) throw invalid('sim must be an object')
  for (const [name, given] of Object.entries(value)) {
    if (!Object.hasOwn(fields, name)) throw invalid(`sim.${name} is not known`)
    if (!fields[name as keyof Ask](given)) throw invalid(`sim.${name} has a value out of range`)
  }
  return value as Ask
}

function invalid(message: string): Refusal {
  return new Refusal(400, 'invalid_sim', message)
}
