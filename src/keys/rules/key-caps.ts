/** Caps of one API key: its own restrictions, in addition to its owner's. All of them are in the stored record. */

import { isInside, type Network, parseNetwork } from '../../formats/cidr.ts'
import { isObject } from '../../formats/fields.ts'
import { toQuoted } from '../../formats/redact.ts'
import { parseWindow } from '../../formats/time.ts'
import { keyOfModel, type Limit, type ModelReference } from '../../kinds/resources.ts'
import { type KeyLimit, problemOfLimits, wideningOfLimits } from './key-limits.ts'

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

const maxTokens = 1_000_000_000

/** Refuses every request: for stored caps that cannot be read, or that a later version wrote. */
export const closedCaps: KeyCaps = { models: [] }

/** The caps of a stored record. */
export function readStoredCaps(stored: unknown): KeyCaps {
  if (stored === null || stored === undefined) return {}
  const isKnown =
    isObject(stored) && Object.keys(stored).every((name) => (capNames as string[]).includes(name))
  return isKnown && hasForm(stored) && problemOfCaps(stored) === undefined ? stored : closedCaps
}

/** Whether nothing is capped. */
export function isUncapped(caps: KeyCaps): boolean {
  return capNames.every((name) => caps[name] === undefined)
}

/** The problem of these caps, if any, as a sentence that begins with the field. */
export function problemOfCaps(caps: KeyCaps): string | undefined {
  const empty = capNames.find((name) => caps[name]?.length === 0)
  if (empty !== undefined) return `${empty} must not be empty; leave it out for no cap.`
  const long = capNames.find((name) => (caps[name]?.length ?? 0) > maxCaps[name])
  if (long !== undefined) return `${long} must have at most ${maxCaps[long]} entries.`
  const windows = new Set<number>()
  for (const [i, { limit, window }] of (caps.tokenRateLimits ?? []).entries()) {
    const at = `tokenRateLimits[${i}]`
    if (!Number.isInteger(limit) || limit < 1 || limit > maxTokens) {
      return `${at}.limit must be a whole number from 1 to ${maxTokens}.`
    }
    const windowMs = parseWindow(window)
    if (windowMs === undefined) {
      return `${at}.window must be 1 to 9999 and s, m or h, like 1m, and at most 8784h.`
    }
    if (windows.has(windowMs)) return `${at}.window is there twice; give each window once.`
    windows.add(windowMs)
  }
  const problem = problemOfLimits(caps.limits)
  if (problem !== undefined) return problem
  for (const [i, raw] of (caps.allowedAddresses ?? []).entries()) {
    if (parseNetwork(raw) !== undefined) continue
    return `allowedAddresses[${i}] must be an address or a network like 192.0.2.0/24 or 2001:db8::/32, with no bits set beyond the prefix length.`
  }
  return undefined
}

/** How `next` allows more than `before`, as a sentence that begins with the field. */
export function wideningOf(before: KeyCaps, next: KeyCaps): string | undefined {
  const dropped = capNames.find((name) => before[name] && !next[name])
  if (dropped !== undefined) return `${dropped} may be narrowed, not dropped.`
  const had = new Set(before.models?.map(keyOfModel))
  const added = before.models && next.models?.find((model) => !had.has(keyOfModel(model)))
  if (added)
    return `models may be narrowed, and ${toQuoted(keyOfModel(added))} is not among those of the key.`
  for (const { limit, window } of before.tokenRateLimits ?? []) {
    const windowMs = parseWindow(window)
    const same = next.tokenRateLimits?.find((each) => parseWindow(each.window) === windowMs)
    if (same === undefined || same.limit > limit) {
      return `tokenRateLimits must keep the window ${window}, with at most ${limit} tokens.`
    }
  }
  const widened = before.limits && wideningOfLimits(before.limits, next.limits ?? [])
  if (widened !== undefined) return widened
  const networks = before.allowedAddresses && networksOf(before.allowedAddresses)
  const outside =
    networks &&
    next.allowedAddresses?.find(
      (each) => !networksOf([each]).every((one) => isInside(networks, one)),
    )
  return (
    outside &&
    `allowedAddresses may be narrowed, and ${toQuoted(outside)} is outside of those of the key.`
  )
}

/** The networks that can be read. */
export function networksOf(raw: readonly string[]): readonly Network[] {
  return raw.flatMap((each) => parseNetwork(each) ?? [])
}

function hasForm(stored: object): stored is KeyCaps {
  const {
    models = [],
    tokenRateLimits = [],
    limits = [],
    allowedAddresses = [],
  } = stored as Readonly<Record<string, unknown>>
  const lists = [models, tokenRateLimits, limits, allowedAddresses]
  if (!lists.every(Array.isArray)) return false
  return (
    (models as unknown[]).every(
      (model) =>
        isObject(model) && typeof model.namespace === 'string' && typeof model.name === 'string',
    ) &&
    (tokenRateLimits as unknown[]).every(
      (cap) => isObject(cap) && typeof cap.limit === 'number' && typeof cap.window === 'string',
    ) &&
    (allowedAddresses as unknown[]).every((address) => typeof address === 'string')
  )
}
