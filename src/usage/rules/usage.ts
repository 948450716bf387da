/** Derives from the usage that a response reports its charge, and the counters of its tokens. */

import { keyCountersOf } from '../../keys/rules/compiled-caps.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { countersOfWindows } from '../../ratelimit/rules/charged-limits.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import type { HoldRecord } from '../../ratelimit/rules/hold.ts'
import { windowsText } from '../../ratelimit/rules/limit.ts'
import {
  bytesOfToken,
  type Estimate,
  estimateOutput,
  type SentResponse,
} from '../../ratelimit/rules/unreported.ts'

/** A finished response of a model, as the gateway reports it. */
export interface Usage {
  readonly user: string
  /** Bare name. */
  readonly subscription: string
  /** `<namespace>/<name>`. */
  readonly model: string
  /** HTTP status of the response; 0 if there was none. */
  readonly status: number
  readonly reported: ReportedFigures
  /** The group that pays, if Check determined it. */
  readonly group?: string
  /** The key that was used; missing for identity tokens. */
  readonly keyId?: string
  /** The payer (payer.ts). */
  readonly payer?: string
  /** The counters of its key under which the request was admitted (`KeyLimits.counted`), if any. */
  readonly keyCounters?: string
  /** Prices and weights when the request was admitted (amounts.ts), or undefined if there were none. */
  readonly prices?: string
  readonly weights?: string
  /**
   * The limits by name that the response is charged to (ratelimit/rules/charged-limits.ts); those of its key come last.
   */
  readonly limits?: readonly string[]
  /**
   * The windows of its Subscription's limits without a name when the request was admitted; undefined for an earlier
   * line.
   */
  readonly windows?: string
  /** The group whose counter the request uses; empty for the users listed by name. */
  readonly pool?: string
  /** The Subscription's organization, if one of these limits counts by it. */
  readonly organization?: string
  /**
   * Whether one of these limits is enforced and on money: then a successful response is free only if it is nothing but
   * an error.
   */
  readonly hasCostLimit?: boolean
  /** Whether limits are charged in the windows in which its request was admitted. */
  readonly chargesAdmission?: boolean
  /** Length of the response's body. */
  readonly bytes: number
  /** Whether its client left before the response began, after the request was sent to the model. */
  readonly hasLeft?: boolean
  /** The gateway's id of the request, and when its response ended, in milliseconds since the epoch. */
  readonly response?: { readonly id: string; readonly endedAt: number }
  /** What is charged if the model reports less, or undefined if its report counts as it is. */
  readonly estimate?: Estimate
  /** The hold of its request, if it has one. */
  readonly held?: HeldUsage
}

/** The hold of a response that has ended, and how it ended. */
export interface HeldUsage extends Omit<HoldRecord, 'ceiling' | 'estimate'> {
  /** The gateway's request id. */
  readonly id: string
  /** Maximum number of output tokens, or undefined without a ceiling. */
  readonly ceiling: number | undefined
  readonly tookMs: number
  /** Whether the response was broken off, by its client or its server. */
  readonly isBroken: boolean
}

/**
 * The token figures of a response, as its line has them, unchecked. OpenAI's responses have `total_tokens`, and by type
 * `prompt_tokens`, `completion_tokens` (under either name), `details_cached_tokens`, `details_cache_write_tokens`,
 * `details_reasoning_tokens`. Anthropic's have `input_tokens`, `cache_creation_input_tokens`, `cache_read_input_tokens`
 * and `output_tokens`, and at the start of a stream the same with the prefix `start_`. `streamed`: the gateway has seen
 * a stream; `text_bytes`: bytes of text generated in it; `failed`: nothing but an error.
 */
export type ReportedFigures = ReadonlyMap<string, unknown>

/** The report of a response that reports nothing. */
export const nothingReported: ReportedFigures = new Map()

/** Whether a response without usable usage is free, or its tokens are estimated. */
export type UnusableUsage = 'allow' | 'estimate'

/** Whether a response is a success and therefore counts. */
export function isSuccessfulResponse({ status }: Pick<Usage, 'status'>): boolean {
  return status >= 200 && status <= 299
}

/**
 * Tokens to count: for a 2xx response that reports them as whole numbers of 0 or more, its total, or without a usable
 * total the sum of its parts. Undefined if the response counts nothing, because it failed or its model reported nothing
 * usable. Under an enforced limit on cost 0 is not usable: every request has input.
 */
export function countedTokens(usage: Usage): number | undefined {
  if (!isSuccessfulResponse(usage)) return undefined
  const tokens = reportedTokens(usage.reported)
  return tokens === 0 && usage.hasCostLimit ? undefined : tokens
}

function reportedTokens(reported: ReportedFigures): number | undefined {
  const total = usableTotal(reported)
  if (total !== undefined) return total
  const { input, output, isMessage } = partsOf(reported)
  if (isMessage) return whole(sum(input, output))
  return input === undefined || output === undefined ? undefined : whole(input + output)
}

/** The total, unless it is 0 and its parts are not. */
function usableTotal(reported: ReportedFigures): number | undefined {
  const total = whole(reported.get('total_tokens'))
  if (total !== 0) return total
  const { input, output } = partsOf(reported)
  return input || output ? undefined : total
}

/**
 * The reported tokens by OpenAI's names, else by Anthropic's: `input_tokens` leaves out tokens read from a cache or
 * written to one, so the three are added, as in OpenAI's total. The start and end of a stream report the same tokens,
 * and some servers report 0 at one of them, so the higher figure of the two is used.
 */
function partsOf(reported: ReportedFigures) {
  const prompt = whole(reported.get('prompt_tokens'))
  const output = whole(reported.get('completion_tokens'))
  if (prompt === undefined && output === undefined) {
    return { input: inputOf(reported), output: outputOf(reported), isMessage: true }
  }
  // A response in Anthropic's form to a request in OpenAI's has cached tokens beside these, too.
  const input = prompt === undefined ? undefined : sum(prompt, cachedOf(reported, atEnd))
  return { input, output, isMessage: false }
}

/** The charge of a response. */
export interface Charge {
  /** Undefined if the response failed or reported nothing usable. */
  readonly tokens: number | undefined
  /** Whether the response is a success whose model reported nothing usable; `tokens` is then an estimate, if set. */
  readonly unusable: boolean
  /** The number of estimated tokens among them. */
  readonly estimated: number
}

/**
 * Charges a response, for counters and ledger alike. A server's failure is free, whatever its status; a client that does
 * not wait for the response is charged its input, which was read. Under an enforced limit on cost, unreported use is
 * estimated, whatever `unusableUsage` says.
 */
export function chargeOf(usage: Usage, unusableUsage: UnusableUsage): Charge {
  const reported = countedTokens(usage)
  const unusable = isUnusable(usage, reported)
  const { estimate, hasLeft } = usage
  if (estimate !== undefined && hasLeft) {
    return { tokens: estimate.input, unusable: false, estimated: estimate.input }
  }
  if (usage.reported.get('failed') === true) {
    return { tokens: undefined, unusable: false, estimated: 0 }
  }
  if (estimate !== undefined && (unusable || isCutShort(usage))) return chargeWith(estimate, usage)
  const isFree = unusableUsage === 'allow' && usage.hasCostLimit !== true
  if (!unusable || isFree) return { tokens: reported, unusable, estimated: 0 }
  // Reported parts count as they are; the estimate stands for the missing ones.
  const { input = 0, output = 0 } = partsOf(usage.reported)
  const estimated = Math.ceil(usage.bytes / bytesOfToken)
  return { tokens: bounded(input + output + estimated), unusable, estimated }
}

/** Whether a success reported nothing usable. Half of a message's usage is not usable, but counts: the other half was not free. */
function isUnusable(usage: Usage, counted: number | undefined): boolean {
  return isSuccessfulResponse(usage) && (counted === undefined || isHalf(usage))
}

/** Whether a message that was not cut short has only one of its parts, and no total. */
function isHalf(usage: Usage): boolean {
  const { input, output, isMessage } = partsOf(usage.reported)
  if (!isMessage || (input === undefined) === (output === undefined)) return false
  return usableTotal(usage.reported) === undefined && !isCutShort(usage)
}

/** Models may report any figure, and doubles are exact only up to here. */
function bounded(tokens: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, tokens)
}

/** Whether a message's beginning was reported and its end was not. */
function isCutShort({ reported, status }: Usage): boolean {
  if (!reported.has(atStart.input) || reported.has(atEnd.output)) return false
  return isSuccessfulResponse({ status })
}

/** The reported figures, and an estimate of the rest. */
function chargeWith(estimate: Estimate, usage: Usage): Charge {
  const known = partsOf(usage.reported)
  const rest = estimateOutput(estimate, sentPartOf(usage))
  // Of a stream that was cut short, the output reported at its start is incomplete.
  const output = isCutShort(usage) ? Math.max(known.output ?? 0, rest) : known.output || rest
  const tokens = bounded((known.input || estimate.input) + output)
  const unusable = isUnusable(usage, countedTokens(usage))
  const reported = (known.input ?? 0) + (known.output ?? 0)
  return { tokens, unusable, estimated: Math.max(0, tokens - reported) }
}

/** The sent part of a response, according to its usage. */
export function sentPartOf({ reported, bytes }: Pick<Usage, 'reported' | 'bytes'>): SentResponse {
  const isStream = reported.get('streamed') === true
  return { bytes, isStream, textBytes: whole(reported.get('text_bytes')) ?? 0 }
}

/** Anthropic's figures at the end of a response, and at the start of a stream. */
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

function inputOf(reported: ReportedFigures): number | undefined {
  return greater(inputTokens(reported, atEnd), inputTokens(reported, atStart))
}

function outputOf(reported: ReportedFigures): number | undefined {
  return greater(whole(reported.get(atEnd.output)), whole(reported.get(atStart.output)))
}

/** The figures of a response besides its total, in either dialect; 0 if missing. */
export function tokensByType(reported: ReportedFigures) {
  const figure = (name: string): number | undefined => whole(reported.get(name))
  const { input = 0, isMessage } = partsOf(reported)
  const output = figure('completion_tokens') ?? outputOf(reported) ?? 0
  // Some servers also report the cached part of the prompt by Anthropic's names: then the parts exceed the total.
  const isWithin =
    !isMessage && input + output > (usableTotal(reported) || Number.POSITIVE_INFINITY)
  return {
    input: isWithin ? (figure('prompt_tokens') ?? 0) : input,
    /** Input tokens that came from a cache. */
    cached:
      figure('details_cached_tokens') ??
      figure('cached_tokens') ??
      greater(figure(atEnd.read), figure(atStart.read)) ??
      0,
    /** Input tokens that were written to a cache, for however long. */
    cacheWrite:
      figure('details_cache_write_tokens') ??
      figure('cache_write_tokens') ??
      greater(figure(atEnd.written), figure(atStart.written)) ??
      0,
    output,
    /** Output tokens used for reasoning. */
    reasoning: figure('details_reasoning_tokens') ?? 0,
  }
}

function inputTokens(reported: ReportedFigures, names: typeof atEnd): number | undefined {
  return sum(whole(reported.get(names.input)), cachedOf(reported, names))
}

function cachedOf(reported: ReportedFigures, names: typeof atEnd): number | undefined {
  return sum(whole(reported.get(names.written)), whole(reported.get(names.read)))
}

function whole(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/** The sum of the known figures: half a report is better than none. */
function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined ? other : one + (other ?? 0)
}

function greater(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return Math.max(one, other)
}

/** The counters of this usage's tokens: of the limits without a name of its Subscription and of its key. */
export function tokenCountersOf(usage: Usage, snapshot: Snapshot): readonly Counter[] {
  const counters = countersOfKind(usage, snapshot, 'tokens')
  if (usage.keyCounters === undefined) return counters
  return [...counters, ...keyCountersOf(usage.keyCounters, usage.subscription, usage.user)]
}

/**
 * The counters of its Subscription's limits without a name: those with which its request was admitted, or for an
 * earlier line the current ones, if they still exist.
 */
export function countersOfKind(
  { subscription, model, user, windows }: Usage,
  snapshot: Snapshot,
  kind: 'tokens' | 'requests',
): readonly Counter[] {
  const limits = snapshot.subscriptions.get(subscription)?.limits.get(model) ?? []
  // Counters of the current limits are cached.
  if (windows !== undefined && windows !== windowsText(limits).text) {
    const whose = { user, subscription, model, keyId: '', pool: '', organization: '' }
    return countersOfWindows(windows, kind, whose)
  }
  const counters: Counter[] = []
  for (const limit of limits) {
    const isNamed = limit.limitName !== undefined
    if (limit.kind === kind && !isNamed) counters.push(counterOf(limit, user))
  }
  return counters
}
