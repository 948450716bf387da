/**
 * Usage as FOCUS, the FinOps Open Cost and Usage Specification, version 1.2: charges for each day and group. The columns
 * are those that 1.2 and 1.0 require, and ours, which begin with `x_`.
 */

import type { CsvRow } from '../../formats/csv.ts'
import { formatPriceUnits, toPriceUnits } from '../../formats/money.ts'
import { dayMs, toTimestamp } from '../../formats/time.ts'
import { type Rates, ratesOf } from '../../usage/rules/amounts.ts'
import { type UsageTotal, usageDimensions } from '../../usage/store.ts'

/** The issuer and the currency of charges. */
interface FocusBill {
  /** ISO 4217. */
  readonly currency: string
  /** The name of the installation. */
  readonly issuer: string
}

/** In alphabetical order, ours last. A column that no row has a value for is empty. */
export const focusColumns = [
  ...['BilledCost', 'BillingAccountId', 'BillingAccountName', 'BillingCurrency'],
  ...['BillingPeriodEnd', 'BillingPeriodStart', 'ChargeCategory', 'ChargeClass'],
  ...['ChargeDescription', 'ChargeFrequency', 'ChargePeriodEnd', 'ChargePeriodStart'],
  ...['CommitmentDiscountCategory', 'CommitmentDiscountId', 'CommitmentDiscountName'],
  ...['CommitmentDiscountStatus', 'CommitmentDiscountType', 'ConsumedQuantity', 'ConsumedUnit'],
  ...['ContractedCost', 'ContractedUnitPrice', 'EffectiveCost', 'InvoiceIssuerName', 'ListCost'],
  ...['ListUnitPrice', 'PricingCategory', 'PricingQuantity', 'PricingUnit', 'ProviderName'],
  ...['PublisherName', 'RegionId', 'RegionName', 'ResourceId', 'ResourceName', 'ResourceType'],
  ...['ServiceCategory', 'ServiceName', 'ServiceSubcategory', 'SkuId', 'SkuMeter', 'SkuPriceId'],
  ...['SubAccountId', 'SubAccountName', 'Tags', 'x_Answers', 'x_CacheWriteTokens'],
  ...['x_CachedTokens', 'x_EstimatedTokens', 'x_InputTokens', 'x_Model', 'x_OutputTokens'],
  'x_ReasoningTokens',
] as const

type FocusRow = CsvRow & Partial<Record<(typeof focusColumns)[number], string | number>>

/**
 * The charges of a total that is grouped by day, every dimension, rate and prices. With prices they are one for its
 * requests and one for each kind of token, exact products, and one for what rounding each response up has added; else
 * one for all tokens. The figures of the whole are in the first. None if all requests were refused.
 */
export function toFocusRows(total: UsageTotal, bill: FocusBill): readonly FocusRow[] {
  const { group, cost } = total
  const [rate = '', prices = ''] = group.slice(usageDimensions.length)
  const whose = whoseRow(total, bill)
  const row = { ...whose, ...figuresOf(total) }
  if (total.answers === 0) return []
  if (prices === '') {
    const usage = usageOf(total, undefined, total.total, rate || '0')
    return [{ ...row, ...usage, ...costs(toDecimal(cost ?? '0')) }]
  }
  const rates = ratesOf(prices)
  const charges = (Object.keys(meters) as Meter[]).flatMap((meter) => {
    const quantity = quantityOf(total, meter)
    if (quantity === 0 && meter !== 'request') return []
    return [usageOf(total, meter, quantity, formatPriceUnits(rates[meter]))]
  })
  const exact = charges.reduce((sum, { BilledCost }) => sum + toPriceUnits(BilledCost), 0n)
  const rounding = toPriceUnits(cost ?? '0') - exact
  const all = rounding === 0n ? charges : [...charges, adjustmentOf(total, rounding)]
  return all.map((charge, i) => ({ ...(i === 0 ? row : whose), ...charge }))
}

/** Meters with a price of their own, by name in `SkuMeter`. */
const meters = {
  request: 'Requests',
  input: 'Input tokens',
  cached: 'Cached tokens',
  cacheWrite: 'Cache write tokens',
  output: 'Output tokens',
} as const

type Meter = keyof typeof meters & keyof Rates

function quantityOf(total: UsageTotal, meter: Meter): number {
  const { answers, pricedInput: input, pricedCached: cached, cacheWrite } = total
  if (meter === 'request') return answers
  // All sums are capped.
  if (meter === 'output') return Math.max(0, total.total - input - cached - cacheWrite)
  return { input, cached, cacheWrite }[meter]
}

/** `meter`: undefined means tokens of all kinds. */
function usageOf({ group }: UsageTotal, meter: Meter | undefined, quantity: number, price: string) {
  const [subscription = '', model = ''] = group
  const what = meter === undefined ? 'Tokens' : meters[meter]
  const unit = meter === 'request' ? 'Requests' : 'Tokens'
  const sku = meter === undefined ? model : `${model}/${meter}`
  const cost = toDecimal(formatPriceUnits(toPriceUnits(price) * BigInt(quantity)))
  return {
    ...costs(cost),
    ChargeCategory: 'Usage',
    ChargeDescription: `${what} of ${model}`,
    ConsumedQuantity: toDecimal(`${quantity}`),
    ConsumedUnit: unit,
    ContractedUnitPrice: toDecimal(price),
    ListUnitPrice: toDecimal(price),
    PricingCategory: 'Standard',
    PricingQuantity: toDecimal(`${quantity}`),
    PricingUnit: unit,
    SkuId: sku,
    SkuMeter: what,
    SkuPriceId: `${subscription}/${sku}`,
  }
}

/** It has neither a quantity nor a price, and so no SKU. */
function adjustmentOf({ group: [, model = ''] }: UsageTotal, units: bigint) {
  return {
    ...costs(toDecimal(formatPriceUnits(units))),
    ChargeCategory: 'Adjustment',
    ChargeDescription: `Rounding of each response of ${model}`,
  }
}

function costs(cost: string) {
  return { BilledCost: cost, ContractedCost: cost, EffectiveCost: cost, ListCost: cost }
}

/** The columns that all charges of a group share. */
function whoseRow({ start = 0, group }: UsageTotal, { currency, issuer }: FocusBill): FocusRow {
  const [subscription = '', model = '', user = '', key = '', organization = '', center = ''] = group
  const month = new Date(start)
  const tags = { user, subscription, ...(center !== '' && { cost_center: center }) }
  return {
    BillingAccountId: organization || issuer,
    BillingCurrency: currency,
    BillingPeriodEnd: toTimestamp(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1)),
    BillingPeriodStart: toTimestamp(Date.UTC(month.getUTCFullYear(), month.getUTCMonth())),
    ChargeFrequency: 'Usage-Based',
    ChargePeriodEnd: toTimestamp(start + dayMs),
    ChargePeriodStart: toTimestamp(start),
    InvoiceIssuerName: issuer,
    ProviderName: issuer,
    PublisherName: issuer,
    ...(key !== '' && { ResourceId: key, ResourceType: 'API Key' }),
    ServiceCategory: 'AI and Machine Learning',
    ServiceName: 'Model inference',
    ServiceSubcategory: 'Generative AI',
    SubAccountId: center,
    Tags: JSON.stringify(tags),
    x_Model: model,
  }
}

function figuresOf(total: UsageTotal): FocusRow {
  return {
    x_Answers: total.answers,
    x_CacheWriteTokens: total.cacheWrite,
    x_CachedTokens: total.cached,
    x_EstimatedTokens: total.estimated,
    x_InputTokens: total.input,
    x_OutputTokens: total.output,
    x_ReasoningTokens: total.reasoning,
  }
}

/** With a point: readers take a column of whole numbers for integers, where FOCUS has decimals. */
function toDecimal(raw: string): string {
  return raw.includes('.') ? raw : `${raw}.0`
}
