/** The hold of a request in one limit, by the model's prices and weights, and the sums of all open holds. */

import { hash } from 'node:crypto'
import { getOrAdd } from '../../../formats/lists.ts'
import { toPriceUnits } from '../../../formats/money.ts'
import type { LimitKind, Prices, Weights } from '../../../kinds/limits.ts'
import type { Expectation } from './estimator.ts'
import type { Growth } from './log-histogram.ts'

/**
 * The amount of a request in a limit, by its tokens: `base + perInput * input + perOutput * output`, rounded up.
 * Without factors a limit counts tokens as they are.
 */
export interface Factors {
  readonly base: number
  readonly perInput: number
  /** Maximum charge per input token: only the response shows which tokens were cached. */
  readonly mostPerInput: number
  readonly perOutput: number
  /** The unit of standard deviations: in nano-units, variances of money would be too large for exact sums. */
  readonly grain: number
}

const plain: Factors = { base: 0, perInput: 1, mostPerInput: 1, perOutput: 1, grain: 1 }

/** Whole numbers of tokens or of another unit of a limit, and of squares for the variance, so that sums are exact. */
export interface HeldAmount {
  /** Expected input and output. */
  readonly mean: number
  readonly variance: number
  /** Expected output alone, to which the shared error of similar requests applies. */
  readonly output: number
  /** The request's maximum use, unless its input was estimated too low. */
  readonly most: number
}

/** The sums over the open holds of a counter. */
export interface HeldSums extends HeldAmount {
  readonly count: number
}

/** Maximum of one hold: larger sums would be neither exact nor whole numbers in Redis. */
export const maxVariance = 1e12
export const maxHold = 1e12

/**
 * The output that 99 of 100 answers need at most, before any is known: as the estimator computes it, which a Check does
 * not load.
 */
export const firstOutputP99 = 7_349

export const noHolds: HeldSums = { count: 0, mean: 0, variance: 0, output: 0, most: 0 }

/** The hold of a request with this ceiling. */
export function heldAmountOf(
  { input, inputVariance, output, outputVariance }: Expectation,
  ceiling: number,
  factors = plain,
): HeldAmount {
  const most = Math.min(ceiling, maxHold)
  const own = Math.ceil(factors.perOutput * Math.min(Math.ceil(output), most))
  return {
    mean: Math.ceil(factors.base + factors.perInput * Math.ceil(input)) + own,
    variance: spreadOf(factors, inputVariance, outputVariance),
    output: own,
    most: mostInput(factors, input) + Math.ceil(factors.perOutput * most),
  }
}

function mostInput({ base, mostPerInput }: Factors, input: number): number {
  return Math.ceil(base + mostPerInput * Math.ceil(input))
}

/** The output for which this amount of a limit suffices, besides the input; Infinity if the limit counts no output. */
export function outputWithin(amount: number, input: number, factors = plain): number {
  const { perOutput } = factors
  if (perOutput === 0) return Number.POSITIVE_INFINITY
  return Math.floor((amount - mostInput(factors, input)) / perOutput)
}

/** Whether this amount of a limit suffices for the input alone. */
export function coversInput(amount: number, input: number, factors = plain): boolean {
  return amount >= mostInput(factors, input)
}

function spreadOf({ perInput, perOutput, grain }: Factors, input: number, output: number): number {
  const variance = perInput ** 2 * input + perOutput ** 2 * output
  return Math.min(maxVariance, Math.ceil(variance / grain ** 2))
}

/** The hold of a request whose expected output is now this, never less than before. `tokens`: its hold in tokens. */
export function growHold(
  hold: HeldAmount,
  { mean, variance, inputVariance = 0 }: Growth,
  factors = plain,
  tokens = hold,
): HeldAmount {
  const most = tokens.most - (tokens.mean - tokens.output)
  const expected = Math.max(tokens.output, Math.min(Math.ceil(mean), most))
  const output = Math.ceil(factors.perOutput * expected)
  return {
    mean: hold.mean - hold.output + output,
    variance: spreadOf(factors, inputVariance, variance),
    output,
    most: hold.most,
  }
}

/** The sums with one hold more (`sign` 1) or less (-1). */
export function withHold(sums: HeldSums, hold: HeldAmount, sign: 1 | -1): HeldSums {
  return {
    count: sums.count + sign,
    mean: sums.mean + sign * hold.mean,
    variance: sums.variance + sign * hold.variance,
    output: sums.output + sign * hold.output,
    most: sums.most + sign * hold.most,
  }
}

/**
 * By subscription and user. Not `memoize`, because a map takes 0.2 µs longer to find a newly built string. Cleared
 * beyond this many.
 */
const owners = new Map<string, Map<string, string>>()
const maxOwners = 20_000
let ownerCount = 0

/**
 * The owner of an estimator, without the user's name, because it is stored in the database. Cached: each Check of a
 * limit on cost asks for it, and a digest takes longer than the rest of an estimate.
 */
export function estimatorOwner(subscription: string, user: string): string {
  const known = owners.get(subscription)?.get(user)
  if (known !== undefined) return known
  if (ownerCount++ % maxOwners === 0) owners.clear()
  const owner = `${subscription} ${hash('sha256', user).slice(0, 16)}`
  getOrAdd(owners, subscription, () => new Map()).set(user, owner)
  return owner
}

export type ModelFactors = ReturnType<typeof modelFactors>

/** In nano-units, of which a token costs many. */
const grainOfMoney = 1_000
const unitsOfNano = 1e15

/**
 * How limits count the tokens that a request to a model is expected to use. Expects input that is neither read from a
 * cache nor written to one; the maximum charge is the highest of the three.
 */
export function modelFactors(prices: Prices = {}, weights?: Weights) {
  const { perToken, perInputToken = perToken, perOutputToken = perToken, perRequest } = prices
  const { perCachedToken = perInputToken, perCacheWriteToken = perInputToken } = prices
  const nano = (price = '0'): number => Number(toPriceUnits(price)) / unitsOfNano
  return {
    /** For limits on tokens; undefined if they count tokens as they are. */
    tokens: weights && {
      base: 0,
      perInput: 1,
      mostPerInput: Math.max(1_000, weights.cached, weights.cacheWrite) / 1_000,
      perOutput: weights.output / 1_000,
      grain: 1,
    },
    cost: {
      base: nano(perRequest),
      perInput: nano(perInputToken),
      mostPerInput: Math.max(nano(perInputToken), nano(perCachedToken), nano(perCacheWriteToken)),
      perOutput: nano(perOutputToken),
      grain: grainOfMoney,
    },
  }
}

/** Returns undefined if a limit of this kind counts tokens as they are. */
export function limitFactors(kind: LimitKind, of: ModelFactors): Factors | undefined {
  if (kind === 'cost' || kind === 'tokens') return of[kind]
  return kind === 'input' ? ofInput : kind === 'output' ? ofOutput : undefined
}

const ofInput: Factors = { base: 0, perInput: 1, mostPerInput: 1, perOutput: 0, grain: 1 }
const ofOutput: Factors = { base: 0, perInput: 0, mostPerInput: 0, perOutput: 1, grain: 1 }
