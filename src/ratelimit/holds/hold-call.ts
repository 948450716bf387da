/** Encodes the call of the script that decides for one subject, and decodes its result. Pure. */

import { exactFromJson, maxExactInt, subtractExact } from '../../formats/exact.ts'
import { parseCounterKey } from '../rules/counter-key.ts'
import type { Factors } from '../rules/estimates/held-amounts.ts'
import type { Hold, HoldResult } from '../rules/hold.ts'
import type { HoldReply } from './hold-scripts.ts'
import { shortRequestId } from './request-ids.ts'
import { boundWindow, type HoldTarget } from './windows.ts'

/** A field of the subject's sums: that of a counter, or of one of its windows. */
function nameOf(target: HoldTarget, charge: Hold['charge']): string {
  const { key } = target.counter
  const { model, counted } = parseCounterKey(key)
  const { id = key } = boundWindow(target, charge) ?? {}
  return `${model}|${counted}${id.slice(key.length)}`
}

/**
 * The arguments of the call, except the ended holds at its end. `unsettledMs`: how long the call for another subject
 * may still be refused, so that a grant of this one is released.
 */
export function holdCallArgs(
  asked: Hold,
  targets: readonly HoldTarget[],
  lease: number,
  gateway: string,
  unsettledMs: number,
): readonly (string | number)[] {
  const { id, expected, overshoot, canLimitOutput, charge, asker = '' } = asked
  const { input, inputVariance, output, outputVariance } = expected
  const { floor, beyondRoom, isSeveral, least, worst } = expected
  const args = [
    ...[id === undefined ? '' : shortRequestId(id), lease],
    ...[input, inputVariance, output, outputVariance, floor],
    ...[isSeveral ? -beyondRoom : beyondRoom, least, Number.isFinite(worst) ? worst : -1],
    ...[overshoot, canLimitOutput ? '1' : '0', asker, gateway, unsettledMs],
  ]
  for (const target of targets) {
    const { kind, counter, window } = target
    const { used, own } = window ?? { used: 0, own: 0 }
    const counted = counter.factors ? `${kind} ${written(counter.factors)}` : kind
    const figures = [counter.limit, nameOf(target, charge), subtractExact(used, own), own]
    args.push(counted, ...figures.map(String))
  }
  return args
}

function written({ base, perInput, mostPerInput, perOutput, grain }: Factors): string {
  return `${base} ${perInput} ${mostPerInput} ${perOutput} ${grain}`
}

/** Reads the script's result. `isGivenBack`: the grant is released, so the request's own hold is subtracted. */
export function parseHoldReply(
  targets: readonly HoldTarget[],
  now: number,
  [outcome, ceiling, open, ...figures]: HoldReply,
  isGivenBack = false,
): HoldResult {
  return {
    outcome: outcome === 'repeated' ? 'held' : (outcome as HoldResult['outcome']),
    ...(outcome === 'busy' && { open }),
    ceiling: ceiling < 0 ? Number.POSITIVE_INFINITY : ceiling,
    windows: targets.map(({ kind, window }, i) => {
      const own = isGivenBack ? Number(figures[2 * targets.length + i] ?? 0) : 0
      const used = exactFromJson(figures[2 * i]) ?? maxExactInt
      const resetsAt = window?.resetsAt ?? now
      if (kind !== 'tokens') return { used: subtractExact(used, own), resetsAt }
      const held = Number(figures[2 * i + 1] ?? 0) - own
      return held > 0 ? { used, resetsAt, held } : { used, resetsAt }
    }),
  }
}
