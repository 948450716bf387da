/** Sums of usage between two steps of the ledger. */

import { addExact } from '../../formats/exact.ts'
import { appendTo } from '../../formats/lists.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { hourMs } from '../../formats/time.ts'
import { chargeParts, costInNano, isCharged, weightedTokens } from '../rules/amounts.ts'
import { type Charge, tokensByType, type Usage } from '../rules/usage.ts'
import { type UsageRow, type UsageSums, usageFigures } from '../store.ts'
import { addFigure } from './merge.ts'

const nothing = Object.keys(usageFigures).map((name) => [name, 0])
const noUse: UsageSums = Object.fromEntries(nothing)

export function createUsageSums() {
  let rows: Mutable<UsageRow>[] = []
  /** The rows by key, or by user without a key: comparing a few rows is cheaper than building a text of all names. */
  let byName = new Map<string, Mutable<UsageRow>[]>()

  function rowOf(usage: Usage, endedAt: number): Mutable<UsageRow> {
    const { user, subscription, model, keyId = '', payer = '', prices = '' } = usage
    const hour = endedAt - (endedAt % hourMs)
    const name = keyId || user
    const known = byName.get(name)
    const same = known?.find(
      (row) =>
        row.hour === hour &&
        row.keyId === keyId &&
        row.user === user &&
        row.model === model &&
        row.subscription === subscription &&
        row.payer === payer &&
        row.prices === prices,
    )
    if (same !== undefined) return same
    const row = {
      hour,
      user,
      subscription,
      model,
      keyId,
      payer,
      prices,
      cost: prices === '' ? null : 0,
      ...noUse,
    }
    rows.push(row)
    appendTo(byName, name, row)
    return row
  }

  return {
    /** The number of rows. */
    get size(): number {
      return rows.length
    },
    /** Adds a response, unless it failed and is charged nothing. `endedAt` in milliseconds since the epoch. */
    add(usage: Usage, charge: Charge, endedAt: number): void {
      if (!isCharged(usage, charge)) return
      const { tokens, estimated } = charge
      const row = rowOf(usage, endedAt)
      const parts = chargeParts(usage, charge)
      row.answers += 1
      if (row.cost !== null) row.cost = addExact(row.cost, costInNano(parts, row.prices))
      if (tokens === undefined) return
      row.total = addFigure(row.total, tokens)
      row.estimated = addFigure(row.estimated, estimated)
      row.pricedInput = addFigure(row.pricedInput, parts.input)
      row.pricedCached = addFigure(row.pricedCached, parts.cached)
      row.cacheWrite = addFigure(row.cacheWrite, parts.cacheWrite)
      row.weight = addFigure(row.weight, weightedTokens(parts, usage.weights) - tokens)
      const { input, output, cached, reasoning } = tokensByType(usage.reported)
      row.input = addFigure(row.input, input)
      row.output = addFigure(row.output, output)
      row.cached = addFigure(row.cached, cached)
      row.reasoning = addFigure(row.reasoning, reasoning)
    },
    /** Returns the rows so far, and starts with none. */
    drain(): readonly UsageRow[] {
      const drained = rows
      rows = []
      byName = new Map()
      return drained
    },
  }
}
