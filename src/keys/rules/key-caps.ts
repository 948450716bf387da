/** Caps of one API key: its own restrictions, in addition to its owner's. All of them are in the stored record. */

import { containsNetwork, type Network, parseNetwork } from '../../formats/cidr.ts'
import { type FieldProblem, formatPath, readFields } from '../../formats/fields.ts'
import { quoteName } from '../../formats/redact.ts'
import { list, object, partial, text } from '../../formats/schema.ts'
import { parseWindow } from '../../formats/time.ts'
import { findUnknownFields } from '../../formats/unknown-fields.ts'
import { limitSchema } from '../../kinds/limit-schemas.ts'
import { keyOfModel, type Limit, type ModelReference } from '../../kinds/resources.ts'
import {
  cappedModelSchema,
  describeLimitWidening,
  type KeyLimit,
  keyLimitsSchema,
} from './key-limits.ts'

/** A missing cap restricts nothing. */
export interface KeyCaps {
  /** The only models; at least one. */
  readonly models?: readonly ModelReference[]
  /** Limits on the tokens of this key, of all models together. */
  readonly tokenRateLimits?: readonly Pick<Limit, 'limit' | 'window'>[]
  /** Further limits, by name. */
  readonly limits?: readonly KeyLimit[]
  /** The only networks that it may be used from, in CIDR notation; at least one. */
  readonly allowedAddresses?: readonly string[]
}

/** Maximum number of entries of each. */
export const maxCaps = {
  models: 100,
  tokenRateLimits: 8,
  limits: 20,
  allowedAddresses: 32,
} as const

export const capNames = Object.keys(maxCaps) as readonly (keyof KeyCaps)[]

const schema = object(
  partial({
    models: list(cappedModelSchema, { item: 'model', maxItems: maxCaps.models }),
    tokenRateLimits: list(limitSchema('tokens'), {
      item: 'limit',
      maxItems: maxCaps.tokenRateLimits,
    }),
    limits: keyLimitsSchema,
    allowedAddresses: list(
      text({
        rules: [
          {
            message:
              'must be an address or a network like 192.0.2.0/24 or 2001:db8::/32, with no bits set beyond the prefix length',
            holds: (raw: string) => parseNetwork(raw) !== undefined,
          },
        ],
      }),
      { item: 'network', maxItems: maxCaps.allowedAddresses },
    ),
  }),
)

/** Refuses every request: for stored caps that cannot be read, or that a later version wrote. */
export const closedCaps: KeyCaps = { models: [] }

/** The caps of a stored record. */
export function parseStoredCaps(stored: unknown): KeyCaps {
  if (stored === null || stored === undefined) return {}
  return problemOfCaps(stored) === undefined ? stored : closedCaps
}

/** Whether nothing is capped. */
export function isUncapped(caps: KeyCaps): boolean {
  return capNames.every((name) => caps[name] === undefined)
}

/** The problem of these caps, if any, as a sentence that begins with the field. Never throws. */
export function problemOfCaps(caps: unknown): string | undefined {
  const problems: FieldProblem[] = []
  const read = readFields(caps, schema, problems)
  const [problem] = [...findUnknownFields(caps, schema), ...problems]
  if (problem !== undefined) return `${formatPath(problem.path)} ${problem.message}.`
  // Null is read as missing, but in a stored record it is no cap that a request can have.
  const given = caps as KeyCaps
  const empty = capNames.find((name) => given[name] !== undefined && read[name]?.length === 0)
  if (empty !== undefined) return `${empty} must not be empty; leave it out for no cap.`
  const windows = (read.tokenRateLimits ?? []).map(({ window }) => parseWindow(window))
  const repeated = windows.findIndex((each, i) => windows.indexOf(each) < i)
  if (repeated >= 0)
    return `tokenRateLimits[${repeated}].window is there twice; give each window once.`
  return undefined
}

/** How `next` allows more than `before`, as a sentence that begins with the field. */
export function describeWidening(before: KeyCaps, next: KeyCaps): string | undefined {
  const dropped = capNames.find((name) => before[name] && !next[name])
  if (dropped !== undefined) return `${dropped} may be narrowed, not dropped.`
  const had = new Set(before.models?.map(keyOfModel))
  const added = before.models && next.models?.find((model) => !had.has(keyOfModel(model)))
  if (added)
    return `models may be narrowed, and ${quoteName(keyOfModel(added))} is not among those of the key.`
  for (const { limit, window } of before.tokenRateLimits ?? []) {
    const windowMs = parseWindow(window)
    const same = next.tokenRateLimits?.find((each) => parseWindow(each.window) === windowMs)
    if (same === undefined || same.limit > limit) {
      return `tokenRateLimits must keep the window ${window}, with at most ${limit} tokens.`
    }
  }
  const widened = before.limits && describeLimitWidening(before.limits, next.limits ?? [])
  if (widened !== undefined) return widened
  const networks = before.allowedAddresses && networksOf(before.allowedAddresses)
  const outside =
    networks &&
    next.allowedAddresses?.find(
      (each) => !networksOf([each]).every((one) => containsNetwork(networks, one)),
    )
  return (
    outside &&
    `allowedAddresses may be narrowed, and ${quoteName(outside)} is outside of those of the key.`
  )
}

/** The networks that can be read. */
export function networksOf(raw: readonly string[]): readonly Network[] {
  return raw.flatMap((each) => parseNetwork(each) ?? [])
}
