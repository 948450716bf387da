/** What limits count of the tokens that a request to a model is expected to use, by the model's prices and weights. */

import { priceUnits } from '../../../formats/money.ts'
import type { LimitKind, Prices, Weights } from '../../../kinds/limits.ts'
import type { Factors } from './hold.ts'

export interface ModelFactors {
  /** Of limits on tokens; undefined: they count these as they are. */
  readonly tokens: Factors | undefined
  readonly cost: Factors
}

/** Nano-units of money are many for a token. */
const grainOfMoney = 1_000
const unitsOfNano = 1e15

/**
 * Input that is neither read from a cache nor written to one is expected; the most is what the dearest of these three
 * counts.
 */
export function modelFactors(
  prices: Prices = {},
  weights: Weights | undefined = undefined,
): ModelFactors {
  const { perToken, perInputToken = perToken, perOutputToken = perToken, perRequest } = prices
  const { perCachedToken = perInputToken, perCacheWriteToken = perInputToken } = prices
  const nano = (price = '0'): number => Number(priceUnits(price)) / unitsOfNano
  return {
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

/** undefined: a limit of this kind counts tokens as they are. */
export function factorsOf(kind: LimitKind, of: ModelFactors): Factors | undefined {
  if (kind === 'cost' || kind === 'tokens') return of[kind]
  return kind === 'input' ? ofInput : kind === 'output' ? ofOutput : undefined
}

const ofInput: Factors = { base: 0, perInput: 1, mostPerInput: 1, perOutput: 0, grain: 1 }
const ofOutput: Factors = { base: 0, perInput: 0, mostPerInput: 0, perOutput: 1, grain: 1 }
