/**
 * Price lists of third parties, in USD per token: LiteLLM's model_prices_and_context_window.json, and the list of
 * models of OpenRouter's API.
 */

import { isObject } from '../../formats/fields.ts'
import { parsePrice } from '../../formats/money.ts'
import type { Prices } from '../../kinds/limits.ts'

export type PricedModel = ReturnType<typeof toListed>

/** Our names for the fields of both lists. */
const names: Readonly<Record<string, keyof Prices>> = {
  input_cost_per_token: 'perInputToken',
  output_cost_per_token: 'perOutputToken',
  cache_read_input_token_cost: 'perCachedToken',
  cache_creation_input_token_cost: 'perCacheWriteToken',
  input_cost_per_request: 'perRequest',
  prompt: 'perInputToken',
  completion: 'perOutputToken',
  input_cache_read: 'perCachedToken',
  input_cache_write: 'perCacheWriteToken',
  request: 'perRequest',
}
/** Reasoning is output. */
const reasoning = ['output_cost_per_reasoning_token', 'internal_reasoning']

const repeated = 'the list has several models of this id'

/** The models of a parsed list, or undefined if it has neither form. */
export function parsePriceList(list: unknown): readonly PricedModel[] | undefined {
  if (!isObject(list)) return undefined
  if (Array.isArray(list.data)) {
    const models = new Map<string, PricedModel>()
    for (const each of list.data) {
      if (!isObject(each) || typeof each.id !== 'string' || !isObject(each.pricing)) continue
      const { id: model, pricing } = each
      const isRepeated = models.has(model)
      const listed = toListed(model, Object.entries(pricing))
      // Which prices apply is unknown.
      models.set(model, isRepeated ? { model, prices: undefined, others: [repeated] } : listed)
    }
    return [...models.values()]
  }
  const models = Object.entries(list).flatMap(([model, each]) => {
    // The entry `sample_spec` documents the others.
    if (!isObject(each) || model === 'sample_spec') return []
    // The last two multiply prices: `regional_…_multiplier`, `provider_specific_entry`.
    const fields = Object.entries(each).filter(([name]) => /cost|pric|multipl|specific/.test(name))
    return fields.length === 0 ? [] : [toListed(model, fields)]
  })
  return models.length === 0 ? undefined : models
}

function toListed(model: string, fields: readonly (readonly [string, unknown])[]) {
  const prices: Partial<Record<keyof Prices, string>> = {}
  const others: string[] = []
  const given = new Map(fields)
  for (const [name, value] of fields) {
    const ours = Object.hasOwn(names, name) ? names[name] : undefined
    const price = ours === undefined ? undefined : parsePrice(String(value))
    if (ours !== undefined && price !== undefined) prices[ours] = price
    else if (!isNothing(value) && !isOutput(name, value, given)) {
      // JSON's 1e400 is Infinity, which JSON.stringify shows as null.
      others.push(`${name}: ${typeof value === 'number' ? value : JSON.stringify(value)}`)
    }
  }
  const isWhole = prices.perInputToken !== undefined && prices.perOutputToken !== undefined
  return {
    model,
    /** Undefined if input or output has no usable price. */
    prices: isWhole ? prices : undefined,
    /** Prices that a billingRate cannot express, as they are listed. */
    others,
  }
}

/** Whether the field is the price of reasoning, and equals the price of output. */
function isOutput(name: string, value: unknown, fields: ReadonlyMap<string, unknown>): boolean {
  const output = fields.get('output_cost_per_token') ?? fields.get('completion')
  return reasoning.includes(name) && Number(value) === Number(output)
}

/** Whether the value means that something is free, or has no price. */
function isNothing(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isNothing)
  return Number(value ?? 0) === 0
}
