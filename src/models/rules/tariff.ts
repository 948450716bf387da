/**
 * How responses to requests for one model of a Subscription are charged, as their lines carry it: prices, weights, and
 * the limits by name. It is fixed when a request is admitted, so that a line alone determines its charge.
 */

import type { Prices, Weights } from '../../kinds/limits.ts'
import { modelFactors } from '../../ratelimit/rules/estimates/held-amounts.ts'
import type { CompiledTariff } from './snapshot.ts'

interface Tariff {
  readonly prices: Prices | undefined
  readonly weights: Weights | undefined
  /** As `formatChargedLimit` writes them. */
  readonly limits: readonly string[]
  /** The windows of limits without a name: the member of a line. */
  readonly windows: string
  /** The Subscription's, as in lines, if a limit counts by it. */
  readonly organization: string | undefined
  /** Whether the limits are charged in the windows in which the request was admitted. */
  readonly chargesAdmission: boolean
  /** Whether a limit on money refuses. */
  readonly hasCostLimit: boolean
}

/** Members of a JSON object, or undefined if there is only `windows`. */
export function toTariff(tariff: Tariff): CompiledTariff | undefined {
  const { prices, weights, limits, windows, organization, chargesAdmission, hasCostLimit } = tariff
  const members: string[] = []
  const add = (name: string, value: unknown) => members.push(`"${name}":${JSON.stringify(value)}`)
  if (prices !== undefined) add('prices', writePrices(prices))
  if (weights !== undefined) add('weights', writeWeights(weights))
  if (limits.length > 0) add('limits', limits)
  if (organization !== undefined) add('organization', organization)
  if (hasCostLimit) add('cost_limit', true)
  if (chargesAdmission) add('charge', 'admission')
  if (members.length === 0) return undefined
  const isByTariff = limits.length > 0 || weights !== undefined
  const factors = modelFactors(prices, weights)
  const isPriced = prices !== undefined
  members.push(windows)
  return { text: members.join(','), hasCostLimit, isPriced, isByTariff, factors }
}

const priceNames = {
  perToken: 'token',
  perInputToken: 'input',
  perOutputToken: 'output',
  perCachedToken: 'cached',
  perCacheWriteToken: 'write',
  perRequest: 'request',
} as const

/** `token=0.000002&request=0.01`: the written ones. */
function writePrices(prices: Prices): string {
  const names = Object.keys(priceNames) as (keyof Prices)[]
  return names
    .flatMap((name) => (prices[name] === undefined ? [] : `${priceNames[name]}=${prices[name]}`))
    .join('&')
}

/** In thousandths: `cached=100&write=1250&output=4000`. */
function writeWeights({ cached, cacheWrite, output }: Weights): string {
  return `cached=${cached}&write=${cacheWrite}&output=${output}`
}
