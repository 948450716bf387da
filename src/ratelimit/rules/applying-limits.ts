/** The limits by name that apply to a model, of resources or of a key: as they are enforced, shown and charged. */

import { isCostLimit, type NamedLimit, type WrittenCalendar } from '../../kinds/limits.ts'
import { writeChargedLimit } from './charged-limits.ts'
import { type LimitSource, toCountedLimit, windowOf } from './counted-limits.ts'
import { type CountedLimit, isOfRequests } from './limit.ts'

export interface ApplyingLimit {
  readonly limit: NamedLimit
  readonly place: LimitSource
  readonly counted: CountedLimit
  /** As lines name it. */
  readonly charged: string
}

/** The limits of one place, which are the same for each model that they are about. */
export function placeLimits(
  limits: readonly NamedLimit[],
  calendar: WrittenCalendar | undefined,
  place: LimitSource,
): readonly ApplyingLimit[] {
  return limits.map((limit) => {
    const window = windowOf(limit, calendar)
    const { resource } = place
    const charged = writeChargedLimit({ ...limit, resource, kind: limit.of, window })
    return { limit, place, counted: toCountedLimit(limit, window, place), charged }
  })
}

/** Those that are about this model (`<namespace>/<name>`); undefined: all. */
export function applyingTo(
  model: string | undefined,
  placed: readonly ApplyingLimit[],
): readonly ApplyingLimit[] {
  const isAbout = ({ limit: { models } }: ApplyingLimit) =>
    model === undefined || models === undefined || keysOf(models).has(model)
  return placed.filter(isAbout)
}

/** Of a list that may be long, in which each model of each Subscription is looked for. */
const known = new WeakMap<object, ReadonlySet<string>>()

function keysOf(models: NonNullable<NamedLimit['models']>): ReadonlySet<string> {
  const made = known.get(models)
  if (made !== undefined) return made
  const keys = new Set(models.map(({ namespace, name }) => `${namespace}/${name}`))
  known.set(models, keys)
  return keys
}

/** What applies, compiled. */
interface CompiledLimits {
  /** Those that refuse, also without a name; those that count requests last. */
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
    applying.filter(({ limit }) => limit.enforce === enforce).map(({ counted }) => counted)
  return {
    limits: [...unnamed, ...named(true)].toSorted(
      (a, b) => Number(isOfRequests(a)) - Number(isOfRequests(b)),
    ),
    observed: named(false),
    charged: applying.map(({ charged }) => charged),
    hasCostLimit: applying.some(({ limit }) => isCostLimit(limit)),
  }
}
