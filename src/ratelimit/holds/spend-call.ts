/** A call of the script that decides in one home, and what its answer says. Pure. */

import { minus } from '../../formats/exact.ts'
import { readCounterKey } from '../rules/counter-key.ts'
import type { Hold, HoldAnswer } from '../rules/hold.ts'
import { memberOf } from './request-ids.ts'
import type { SpendAnswer } from './spend-scripts.ts'
import { boundWindow, type Place } from './windows.ts'

export interface CallOptions {
  /** In milliseconds. */
  readonly lease: number
  readonly gateway: string
  /** For how long another home may refuse what this one grants, which is then given back; milliseconds. */
  readonly unsettledMs: number
}

/** The name of a place in the sums of its subject: of a counter, or of one of its windows. */
function nameOf(place: Place, charge: Hold['charge']): string {
  const { key } = place.counter
  const { model, counted } = readCounterKey(key)
  const { id = key } = boundWindow(place, charge) ?? {}
  return `${model}|${counted}${id.slice(key.length)}`
}

/** The arguments before those of holds that have ended. */
export function argsOf(
  asked: Hold,
  places: readonly Place[],
  { lease, gateway, unsettledMs }: CallOptions,
): readonly (string | number)[] {
  const { id, expected, overshoot, canCap, charge, asker = '' } = asked
  const { input, inputVariance, output, outputVariance } = expected
  const { floor, beyondRoom, isSeveral, least, worst } = expected
  const args = [
    ...[id === undefined ? '' : memberOf(id), lease],
    ...[input, inputVariance, output, outputVariance, floor],
    ...[isSeveral ? -beyondRoom : beyondRoom, least, Number.isFinite(worst) ? worst : -1],
    ...[overshoot, canCap ? '1' : '0', asker, gateway, unsettledMs],
  ]
  for (const place of places) {
    const { kind, counter, window } = place
    const { used, own } = window ?? { used: 0, own: 0 }
    const figures = [counter.limit, nameOf(place, charge), minus(used, own), own]
    args.push(kind, ...figures.map(String))
  }
  return args
}

/** `isGivenBack`: without what the request itself holds, of a home that may be asked to give it back. */
export function readAnswer(
  places: readonly Place[],
  now: number,
  [outcome, cap, open, ...figures]: SpendAnswer,
  isGivenBack = false,
): HoldAnswer {
  return {
    outcome: outcome === 'repeated' ? 'held' : (outcome as HoldAnswer['outcome']),
    ...(outcome === 'busy' && { open }),
    cap: cap < 0 ? Number.POSITIVE_INFINITY : cap,
    windows: places.map(({ kind, window }, i) => {
      const [used = 0, held = 0] = figures.slice(2 * i, 2 * i + 2)
      const own = isGivenBack ? (figures[2 * places.length + i] ?? 0) : 0
      const resetsAt = window?.resetsAt ?? now
      if (kind !== 'tokens') return { used: used - own, resetsAt }
      return held > own ? { used, resetsAt, held: held - own } : { used, resetsAt }
    }),
  }
}
