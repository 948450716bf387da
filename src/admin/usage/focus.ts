/**
 * Usage as FOCUS, the FinOps Open Cost and Usage Specification, version 1.2: a charge for each day and
 * group. The columns are those that 1.2 and 1.0 require, and ours, which begin with `x_`.
 */

import type { CsvRow } from '../../formats/csv.ts'
import { toTimestamp } from '../../formats/timestamp.ts'
import { type UsageTotal, usageDimensions } from '../../usage/store.ts'

/** Who charges, and in what. */
export interface FocusBill {
  /** ISO 4217. */
  readonly currency: string
  /** The name of the installation. */
  readonly issuer: string
}

const dayMs = 86_400_000

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
  ...['SubAccountId', 'SubAccountName', 'Tags', 'x_Answers', 'x_CachedTokens', 'x_EstimatedTokens'],
  ...['x_InputTokens', 'x_OutputTokens', 'x_ReasoningTokens'],
] as const

/** The charge of a total that is grouped by day, every dimension and rate. Without a rate it is 0. */
export function toFocusRow(
  total: UsageTotal,
  { currency, issuer }: FocusBill,
): CsvRow & Partial<Record<(typeof focusColumns)[number], string | number>> {
  const { start = 0, group } = total
  const [subscription = '', model = '', user = '', key = '', organization = '', center = ''] = group
  const price = toDecimal(group[usageDimensions.length] || '0')
  const cost = toDecimal(total.cost ?? '0')
  const quantity = toDecimal(`${total.total}`)
  const month = new Date(start)
  const tags = { user, subscription, ...(center !== '' && { cost_center: center }) }
  return {
    BilledCost: cost,
    BillingAccountId: organization || issuer,
    BillingCurrency: currency,
    BillingPeriodEnd: toTimestamp(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1)),
    BillingPeriodStart: toTimestamp(Date.UTC(month.getUTCFullYear(), month.getUTCMonth())),
    ChargeCategory: 'Usage',
    ChargeDescription: `Tokens of ${model}`,
    ChargeFrequency: 'Usage-Based',
    ChargePeriodEnd: toTimestamp(start + dayMs),
    ChargePeriodStart: toTimestamp(start),
    ConsumedQuantity: quantity,
    ConsumedUnit: 'Tokens',
    ContractedCost: cost,
    ContractedUnitPrice: price,
    EffectiveCost: cost,
    InvoiceIssuerName: issuer,
    ListCost: cost,
    ListUnitPrice: price,
    PricingCategory: 'Standard',
    PricingQuantity: quantity,
    PricingUnit: 'Tokens',
    ProviderName: issuer,
    PublisherName: issuer,
    ...(key !== '' && { ResourceId: key, ResourceType: 'API Key' }),
    ServiceCategory: 'AI and Machine Learning',
    ServiceName: 'Model inference',
    ServiceSubcategory: 'Generative AI',
    SkuId: model,
    SkuMeter: 'Tokens',
    SkuPriceId: `${subscription}/${model}`,
    SubAccountId: center,
    Tags: JSON.stringify(tags),
    x_Answers: total.answers,
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
