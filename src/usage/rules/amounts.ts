/** Computes the tokens of a charged response by kind, their weighted sum, and their cost. */

import { type ExactInt, maxExactInt, toExact } from '../../formats/exact.ts'
import { memoize } from '../../formats/memoize.ts'
import { priceUnitsToNano, toPriceUnits } from '../../formats/money.ts'
import type { LimitKind } from '../../kinds/limits.ts'
import { type Charge, isSuccessfulResponse, tokensByType, type Usage } from './usage.ts'

/** The tokens of a charge by kind, which add up to it. */
export interface ChargeParts {
  /** Input that was neither read from a cache nor written to one. */
  readonly input: number
  readonly cached: number
  readonly cacheWrite: number
  /** Includes reasoning, and the difference between a total and its parts. */
  readonly output: number
  /** Whether input and output cannot be distinguished. */
  readonly isWhole: boolean
}

/**
 * The parts of a charge. If a total is less than its parts, output counts first, then input written to a cache, so that
 * a server that contradicts itself does not lower the cost.
 */
export function chargeParts(
  usage: Usage,
  { tokens = 0, estimated }: Pick<Charge, 'tokens' | 'estimated'>,
): ChargeParts {
  const known = tokensByType(usage.reported)
  const estimate = estimated > 0 ? usage.estimate : undefined
  const read = known.input || estimate?.input || 0
  const hasNoOutput = usage.hasLeft === true && estimate !== undefined
  const allInput = hasNoOutput ? tokens : Math.min(read, Math.max(0, tokens - known.output))
  const cacheWrite = Math.min(known.cacheWrite, allInput)
  const cached = Math.min(known.cached, allInput - cacheWrite)
  return {
    input: allInput - cacheWrite - cached,
    cached,
    cacheWrite,
    output: tokens - allInput,
    isWhole: !hasNoOutput && read === 0 && known.output === 0,
  }
}

/** Whether the response counts: a failure that is charged nothing does not. */
export function isCharged(usage: Pick<Usage, 'status'>, { tokens }: Charge): boolean {
  return tokens !== undefined || isSuccessfulResponse(usage)
}

export type Rates = ReturnType<typeof ratesOf>

/** Maximum number of texts of prices, and of weights, that are cached: there are few, each in many lines. */
const mostTexts = 1_000

/**
 * The rates of `Usage.prices`: the price of one token of each kind, and of a request, in units of 10⁻²⁴
 * (formats/money.ts). A kind without a price has its parent's; without that it is free.
 */
export const ratesOf = memoize(mostTexts, (prices) => {
  const {
    token,
    input = token,
    cached = input,
    write = input,
    output = token,
    request,
  } = readFigures(prices)
  const units = (price: string | undefined): bigint => (price ? toPriceUnits(price) : 0n)
  return {
    input: units(input),
    cached: units(cached),
    cacheWrite: units(write),
    output: units(output),
    request: units(request),
  }
})

/** The cost of one request in nano-units, rounded up once. */
export function costInNano(parts: ChargeParts, prices: string): ExactInt {
  const rates = ratesOf(prices)
  const units =
    BigInt(parts.input) * rates.input +
    BigInt(parts.cached) * rates.cached +
    BigInt(parts.cacheWrite) * rates.cacheWrite +
    BigInt(parts.output) * rates.output +
    rates.request
  const nano = priceUnitsToNano(units)
  return toExact(nano < maxExactInt ? nano : maxExactInt)
}

const weightingOf = memoize(mostTexts, (weights) => {
  const { cached, write, output } = readFigures(weights)
  const thousandths = (written = '1000'): bigint => BigInt(Math.round(Number(written)))
  return {
    cached: thousandths(cached),
    cacheWrite: thousandths(write),
    output: thousandths(output),
  }
})

/** The weighted sum of tokens, rounded up once. Tokens of unknown kind have the weight 1. */
export function weightedTokens(parts: ChargeParts, weights: string | undefined): number {
  const { input, cached, cacheWrite, output, isWhole } = parts
  if (weights === undefined || isWhole) return input + cached + cacheWrite + output
  const weight = weightingOf(weights)
  const thousandths =
    BigInt(input) * 1_000n +
    BigInt(cached) * weight.cached +
    BigInt(cacheWrite) * weight.cacheWrite +
    BigInt(output) * weight.output
  return Math.min(Number.MAX_SAFE_INTEGER, Number((thousandths + 999n) / 1_000n))
}

/** The amount that the response adds to a limit of this kind; concurrency is not a sum. */
export function amountOf(kind: LimitKind, usage: Usage, charge: Charge): ExactInt {
  if (kind === 'requests') return 1
  if (kind === 'concurrency' || !isCharged(usage, charge)) return 0
  // A fast path, because each process does this for each line, and most have no weights.
  if (kind === 'tokens' && usage.weights === undefined) return charge.tokens ?? 0
  return amountOfParts(kind, chargeParts(usage, charge), usage)
}

/** Prices and weights in the form that lines have. */
export type PricesAndWeights = Pick<Usage, 'prices' | 'weights'>

/** The amount that a response with these tokens adds, if it counts. */
export function amountOfParts(
  kind: LimitKind,
  parts: ChargeParts,
  { prices, weights }: PricesAndWeights,
): ExactInt {
  if (kind === 'requests') return 1
  if (kind === 'concurrency') return 0
  if (kind === 'tokens') return weightedTokens(parts, weights)
  if (kind === 'output') return parts.output
  if (kind === 'input') return parts.input + parts.cached + parts.cacheWrite
  return prices === undefined ? 0 : costInNano(parts, prices)
}

const form = /^(\w+)=(\d{1,12}(?:\.\d{1,24})?)$/

/** Parses a text `name=value&…`; values that are not plain decimal numbers are left out. */
function readFigures(text: string): Readonly<Partial<Record<string, string>>> {
  const fields = text.split('&').map((field) => form.exec(field) ?? [])
  return Object.fromEntries(fields.map(([, name = '', value]) => [name, value]))
}
