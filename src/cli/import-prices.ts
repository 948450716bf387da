/** `tollgate prices import`: prints the prices of others' lists as billingRates, as YAML on standard output. */

import { stringify } from 'yaml'
import { parseJson } from '../formats/parse-json.ts'
import { type PricedModel, parsePriceList } from '../models/rules/price-lists.ts'
import { loadConfig } from '../settings/config.ts'
import type { Run } from './command.ts'
import type { jsonFlag } from './commands/flags.ts'
import { readInputFile } from './input-file.ts'
import { formatCount, formatJson, printable } from './output.ts'

/** The currency of the lists. */
const currency = 'USD'

/** Runs the command; returns the exit status: 1 if a price is not imported. */
export const importPrices: Run<typeof jsonFlag> = async (
  { operands: [file = '', ...asked], flags },
  io,
) => {
  const { billingCurrency } = loadConfig(io.env)
  if (billingCurrency !== currency) {
    throw new Error(
      `The prices are in ${currency}, and BILLING_CURRENCY is ${billingCurrency}: convert them by hand.`,
    )
  }
  const listed = await readList(file, io.input)
  const chosen = listed.filter(({ model }) => asked.length === 0 || asked.includes(model))
  const missing = asked.filter((name) => chosen.every(({ model }) => model !== name))
  const priced = chosen.filter(({ prices }) => prices !== undefined)
  if (flags.json) io.out(formatJson({ models: chosen }))
  else if (priced.length > 0) io.out(priced.map(show).join('\n'))
  for (const name of missing) io.err(`${printable(name)}: not in the list`)
  for (const { model, prices, others } of chosen) {
    if (prices === undefined)
      io.err(`${printable(model)}: not imported: no price of input and output`)
    for (const each of others) io.err(`${printable(model)}: not imported: ${printable(each)}`)
  }
  const lacking = chosen.filter(({ prices, others }) => prices === undefined || others.length > 0)
  io.err(
    `${formatCount(priced.length, 'model')} with prices; ${lacking.length} with prices that were not imported`,
  )
  return lacking.length + missing.length > 0 ? 1 : 0
}

async function readList(file: string, input: NodeJS.ReadableStream) {
  const raw = parseJson(await readInputFile(file, input))
  if (raw === undefined) throw new Error(`${file} is not JSON.`)
  const list = parsePriceList(raw)
  if (list !== undefined) return list
  throw new Error(
    `${file} is neither LiteLLM's model_prices_and_context_window.json nor OpenRouter's list of models.`,
  )
}

/** Prices that the rate lacks are in a comment beside it, for review. */
function show({ model, prices, others }: PricedModel): string {
  const notes = others.map((each) => `# not imported: ${printable(each)}\n`)
  const entry = stringify(new Map([[model, { billingRate: prices }]])).trimEnd()
  // Without quotes it is a merge key.
  return notes.join('') + entry.replace(/^<<:/, '"<<":')
}
