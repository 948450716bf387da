/** The limits by name that apply to a model, of resources or of a key: as they are enforced, shown and charged. */

import { isCostLimit, type NamedLimit, type WrittenCalendar } from '../../kinds/limits.ts'
import { type CountedLimit, isTaken } from './counter.ts'
import { type Place, toNamedLimit, windowOf, writeChargedLimit } from './named-limits.ts'
import type { Window } from './windows.ts'

export interface ApplyingLimit {
  readonly limit: NamedLimit
  readonly window: Window
  readonly place: Place
}

/** Those of one place that are about this model (`<namespace>/<name>`); undefined: all. */
export function applyingTo(
  model: string | undefined,
  limits: readonly NamedLimit[],
  calendar: WrittenCalendar | undefined,
  place: Place,
): readonly ApplyingLimit[] {
  const isAbout = ({ models }: NamedLimit): boolean =>
    model === undefined ||
    (models?.some(({ namespace, name }) => `${namespace}/${name}` === model) ?? true)
  return limits
    .filter(isAbout)
    .map((limit) => ({ limit, window: windowOf(limit, calendar), place }))
}

/** What applies, compiled. */
export interface CompiledLimits {
  /** Those that refuse, also without a name; those that are taken from last. */
  readonly limits: readonly CountedLimit[]
  /** Those that are only counted and shown. */
  readonly observed: readonly CountedLimit[]
  /** As lines name them. */
  readonly charged: readonly string[]
  /** Whether one on money refuses. */
  readonly hasCostLimit: boolean
}

export function compileLimits(
  unnamed: readonly CountedLimit[],
  applying: readonly ApplyingLimit[],
): CompiledLimits {
  const named = (enforce: boolean) =>
    applying
      .filter(({ limit }) => limit.enforce === enforce)
      .map(({ limit, window, place }) => toNamedLimit(limit, window, place))
  return {
    limits: [...unnamed, ...named(true)].toSorted(
      (a, b) => Number(isTaken(a)) - Number(isTaken(b)),
    ),
    observed: named(false),
    charged: applying.map(({ limit, window, place }) =>
      writeChargedLimit({ ...limit, resource: place.resource, kind: limit.of, window }),
    ),
    hasCostLimit: applying.some(({ limit }) => isCostLimit(limit)),
  }
}
