/** The values of a row of the usage ledger without prices and weights. */
export const unpriced = {
  ...{ prices: '', cost: null, pricedInput: 0, pricedCached: 0, cacheWrite: 0, weight: 0 },
} as const
