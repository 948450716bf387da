/** What an answer reported → the counters it belongs to. */

import { type Counter, counterOf } from './counter.ts'
import type { Snapshot } from './snapshot.ts'

/** One finished answer of a model, as the gateway tells of it. */
export interface Usage {
  readonly user: string
  /** Bare name. */
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  /** HTTP status of the answer; 0 when there was none. */
  readonly status: number
  readonly reported: Reported
  /** The group that pays, where Check was to say. */
  readonly group?: string
  /** Length of the answer's body. */
  readonly bytes: number
  /** Which response it was, where the gateway tells of it twice. */
  readonly response?: EndedResponse
}

/** A response by the gateway's request id, and its end in milliseconds since the epoch. */
export interface EndedResponse {
  readonly id: string
  readonly endedAt: number
}

/**
 * What an answer says of its tokens: the fields of Envoy's metadata `tollgate.usage`, each as it
 * came, of whatever type. OpenAI's answers have `total_tokens`, and by type `prompt_tokens`,
 * `completion_tokens` (however they call them), `details_cached_tokens`, `details_reasoning_tokens`. Anthropic's have `input_tokens`,
 * `cache_creation_input_tokens`, `cache_read_input_tokens` and `output_tokens`; a stream has them
 * at its start too, where they are called `start_input_tokens` and so on.
 */
export type Reported = ReadonlyMap<string, unknown>

/** Of an answer that reports nothing. */
export const nothingReported: Reported = new Map()

/** What is done about an answer without usable usage: nothing, or its tokens are estimated. */
export type UnusableUsage = 'allow' | 'estimate'

/** A token of English text or of JSON has some four bytes. */
const bytesOfToken = 4

/** The tokens of an answer that does not report them, made from its length. */
export function estimateTokens({ bytes }: Usage): number {
  return Math.ceil(bytes / bytesOfToken)
}

/** Whether an answer is a success, and so counts. */
export function isSuccess({ status }: Usage): boolean {
  return status >= 200 && status <= 299
}

/**
 * Tokens to count: of a 2xx answer that reports them in whole numbers of 0 or more. undefined: the
 * answer counts nothing, either rightly (no success) or because its model reported nothing usable.
 */
export function countedTokens(usage: Usage): number | undefined {
  const { reported } = usage
  if (!isSuccess(usage)) return undefined
  if (reported.has('total_tokens')) return whole(reported.get('total_tokens'))
  return messageTokens(reported)
}

/**
 * Tokens of a message. `input_tokens` leaves out what came from a cache or went into one, so the
 * three are added, as OpenAI's total has them too. Start and end of a stream tell of the same
 * tokens, some servers with 0 at one of the two: the higher figure of the two is taken.
 */
function messageTokens(reported: Reported): number | undefined {
  return whole(sum(inputOf(reported), outputOf(reported)))
}

/** Anthropic's figures at the end of an answer, and at the start of a stream. */
const atEnd = namesOf('')
const atStart = namesOf('start_')

function namesOf(place: string) {
  return {
    input: `${place}input_tokens`,
    written: `${place}cache_creation_input_tokens`,
    read: `${place}cache_read_input_tokens`,
    output: `${place}output_tokens`,
  }
}

function inputOf(reported: Reported): number | undefined {
  return greater(inputTokens(reported, atEnd), inputTokens(reported, atStart))
}

function outputOf(reported: Reported): number | undefined {
  return greater(whole(reported.get(atEnd.output)), whole(reported.get(atStart.output)))
}

/** What an answer reports beside its total, in whichever dialect; 0 where it does not say. */
export function tokensByType(reported: Reported) {
  const figure = (name: string): number | undefined => whole(reported.get(name))
  return {
    input: figure('prompt_tokens') ?? inputOf(reported) ?? 0,
    /** Of the input, what came from a cache. */
    cached:
      figure('details_cached_tokens') ?? greater(figure(atEnd.read), figure(atStart.read)) ?? 0,
    output: figure('completion_tokens') ?? outputOf(reported) ?? 0,
    /** Of the output, what the model told itself. */
    reasoning: figure('details_reasoning_tokens') ?? 0,
  }
}

function inputTokens(reported: Reported, names: typeof atEnd): number | undefined {
  const cached = sum(whole(reported.get(names.written)), whole(reported.get(names.read)))
  return sum(whole(reported.get(names.input)), cached)
}

function whole(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/** Of what is known: half a report is counted rather than none. */
function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : one + (other ?? 0)
}

function greater(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return Math.max(one, other)
}

/** The counters of this usage under the limits in force now; none once the limits are gone. */
export function countersOf(usage: Usage, snapshot: Snapshot): readonly Counter[] {
  const limits = snapshot.subscriptions.get(usage.subscription)?.limits.get(usage.model) ?? []
  return limits.map((limit) => counterOf(limit, usage.user))
}
