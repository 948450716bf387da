/** What a row of the usage ledger says where there are neither prices nor weights. */
export const unpriced = {
  ...{ prices: '', cost: null, pricedInput: 0, pricedCached: 0, cacheWrite: 0, weight: 0 },
} as const
