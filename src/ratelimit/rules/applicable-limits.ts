/** The limits by name, of resources or of a key, that apply to a model: as they are enforced, shown and charged. */

import { memoizeLast } from '../../formats/memoize.ts'
import { isCostLimit, type NamedLimit, type WrittenCalendar } from '../../kinds/limits.ts'
import { keyOfModel } from '../../kinds/resources.ts'
import { formatChargedLimit } from './charged-limits.ts'
import { type LimitSource, limitWindow, toCountedLimit } from './counted-limits.ts'
import { type CountedLimit, isRequestLimit } from './limit.ts'

export interface ApplicableLimit {
  readonly limit: NamedLimit
  readonly place: LimitSource
  readonly counted: CountedLimit
  /** Its text in lines. */
  readonly charged: string
}

/** Compiles the limits of one resource or key, independent of the model. */
export function compileNamedLimits(
  limits: readonly NamedLimit[],
  calendar: WrittenCalendar | undefined,
  place: LimitSource,
): readonly ApplicableLimit[] {
  return limits.map((limit) => {
    const window = limitWindow(limit, calendar)
    const { resource } = place
    const charged = formatChargedLimit({ ...limit, resource, kind: limit.of, window })
    return { limit, place, counted: toCountedLimit(limit, window, place), charged }
  })
}

/** The limits that apply to this model (`<namespace>/<name>`), or all if it is undefined. */
export function limitsForModel(
  model: string | undefined,
  placed: readonly ApplicableLimit[],
): readonly ApplicableLimit[] {
  const isAbout = ({ limit: { models } }: ApplicableLimit) =>
    model === undefined ||
    models === undefined ||
    keysOf(models, [], () => new Set(models.map(keyOfModel))).has(model)
  return placed.filter(isAbout)
}

/** The list may be long, and is searched for each model of each Subscription. */
const keysOf = memoizeLast<NonNullable<NamedLimit['models']>, ReadonlySet<string>>()

/** The limits that apply, compiled. */
export function groupLimits(
  unnamed: readonly CountedLimit[],
  applying: readonly ApplicableLimit[],
) {
  const named = (enforce: boolean) =>
    applying.filter(({ limit }) => limit.enforce === enforce).map(({ counted }) => counted)
  return {
    /** Enforced limits, with or without a name; limits that count requests come last. */
    limits: [...unnamed, ...named(true)].toSorted(
      (a, b) => Number(isRequestLimit(a)) - Number(isRequestLimit(b)),
    ),
    /** Limits that are only counted and shown. */
    observed: named(false),
    /** Their texts in lines. */
    charged: applying.map(({ charged }) => charged),
    /** Whether a limit on money is enforced. */
    hasCostLimit: applying.some(({ limit }) => isCostLimit(limit)),
  }
}
