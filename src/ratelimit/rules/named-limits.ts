/**
 * Limits by name: their counters, and how a line names those that it is charged to. A line says all that a counter depends
 * on, so what it adds where is known without any resource.
 */

import type { Exact } from '../../formats/exact.ts'
import { remember } from '../../formats/remember.ts'
import type {
  CalendarWindow,
  LimitKind,
  NamedLimit,
  Per,
  WrittenCalendar,
} from '../../kinds/limits.ts'
import type { CountedLimit, Counter } from './counter.ts'
import { counterKeyPrefix } from './counter-key.ts'
import { readWindowText, type Window, windowText } from './windows.ts'

/** A limit as a line names it. */
export interface ChargedLimit {
  /** A Subscription's name, `ModelRef/<namespace>/<name>`, `Tenant`, or `key`: that of the request. */
  readonly resource: string
  readonly name: string
  readonly kind: LimitKind
  readonly per: Per
  readonly window: Window
}

/** Whose request it is. Names are those in lines. */
export interface Whose {
  readonly user: string
  readonly subscription: string
  /** Empty for identity tokens. */
  readonly keyId: string
  /** Of the groups that own the Subscription the first that the caller has; empty: the pool of those whom it names. */
  readonly pool: string
  /** Empty: the Subscription names none. */
  readonly organization: string
}

/** Text without a space: `<resource> <name> <kind> <per> <window>`. */
export function writeChargedLimit({ resource, name, kind, per, window }: ChargedLimit): string {
  return `${resource} ${name} ${kind} ${per} ${windowText(window)}`
}

const forms = /^(\S{1,400}) (\S{1,63}) (\S{1,11}) (\S{1,12}) (\S{1,80})$/
const kinds: Readonly<Record<LimitKind, true>> = {
  tokens: true,
  input: true,
  output: true,
  requests: true,
  concurrency: true,
  cost: true,
}
const pers: Readonly<Record<Per, true>> = {
  user: true,
  group: true,
  subscription: true,
  model: true,
  organization: true,
  installation: true,
  key: true,
}

/** Lines of one time name few; beyond this many all are forgotten. */
const maxRead = 10_000

/** undefined for anything else. The same object for the same text. Never throws. */
export const readChargedLimit = remember(maxRead, (text): ChargedLimit | undefined => {
  const [, resource = '', name = '', kind = '', per = '', written = ''] = forms.exec(text) ?? []
  const window = readWindowText(written)
  const isKnown = Object.hasOwn(kinds, kind) && Object.hasOwn(pers, per) && window !== undefined
  return isKnown ? { resource, name, kind: kind as LimitKind, per: per as Per, window } : undefined
})

/** Whose use one counter of it adds up; empty: there is one. */
export function counterOwnerOf(
  { per, resource }: Pick<ChargedLimit, 'per' | 'resource'>,
  whose: Whose,
) {
  if (per === 'user' || per === 'key') return whose.user
  if (per === 'group') return whose.pool
  if (per === 'organization') return whose.organization
  // That of the resource itself is one.
  return per === 'subscription' && resource !== whose.subscription ? whose.subscription : ''
}

/** Its counter for a request. Windows of a key's begin with the key, of pools with the counter. */
export function counterOfCharged(charged: ChargedLimit, whose: Whose): Counter {
  const whom = counterOwnerOf(charged, whose)
  const key = prefixOf(charged, whose) + whom
  const owner = charged.per === 'user' ? whom : charged.per === 'key' ? whose.keyId : key
  return { key, owner, window: charged.window }
}

function prefixOf(
  { resource, name, kind, per, window }: ChargedLimit,
  { subscription, keyId }: Pick<Whose, 'subscription' | 'keyId'>,
): string {
  // By this, since a Subscription may have the name `key`.
  const isOfKey = per === 'key'
  return counterKeyPrefix({
    subscription: isOfKey ? subscription : resource,
    model: isOfKey ? `@${keyId}#${name}` : `#${name}`,
    counted: `${kind}-${windowText(window)}`,
  })
}

/** Where a limit is written, and whose request it is as far as that is known without one. */
export interface LimitSource {
  readonly resource: string
  readonly origin: CountedLimit['origin']
  readonly whose: Pick<Whose, 'subscription' | 'organization'> & Partial<Whose>
}

/** A limit by name, as it is enforced. `window`: as its calendar says. */
export function toNamedCountedLimit(
  limit: NamedLimit,
  window: Window,
  { resource, origin, whose }: LimitSource,
): CountedLimit {
  const { name, per, of: kind, windowMs } = limit
  const charged = { resource, name, kind, per, window }
  const isShared = per !== 'user' && per !== 'group'
  const all = { user: '', keyId: '', pool: '', ...whose }
  const { key, owner } = counterOfCharged(charged, all)
  return {
    kind,
    limit: limit.limit,
    window: limit.window,
    windowMs,
    scope: per,
    origin,
    limitName: name,
    models: limit.models,
    windows: window,
    name: nameIn(name, origin),
    counter: isShared ? { key, owner, window, limit: limit.limit } : undefined,
    keyPrefix: prefixOf(charged, all),
    policy: policyOf(limit, origin),
  }
}

/** A copy with a higher figure until then, for the same counters. */
export function raiseNamedLimit(limit: CountedLimit, to: Exact, until: number): CountedLimit {
  const { limitName: name = '', kind: of, windowMs, origin } = limit
  return {
    ...limit,
    limit: to,
    counter: limit.counter && { ...limit.counter, limit: to },
    policy: policyOf({ name, of, limit: to, windowMs }, origin),
    increasedUntil: until,
  }
}

const utc: Window = { every: 'day', zone: 'UTC' }

/** A calendar's is the same object for the same calendar. */
export function windowOf(
  { window, windowMs }: Pick<NamedLimit, 'window' | 'windowMs'>,
  { timeZone = 'UTC', weekStartsOn = 1, monthStartsOn = 1 }: WrittenCalendar = {},
): Window {
  const every = window as CalendarWindow | ''
  if (windowMs > 0 || every === '') return { ms: windowMs }
  const first = { day: '', week: weekStartsOn, month: monthStartsOn }[every]
  return readWindowText(`${every}${first}@${timeZone}`) ?? utc
}

/** Callers are not told figures of limits that concern others' Subscriptions, too; money has headers of its own. */
function policyOf(
  { name, of, limit, windowMs }: Pick<NamedLimit, 'name' | 'of' | 'limit' | 'windowMs'>,
  origin: CountedLimit['origin'],
) {
  if (of === 'cost' || origin === 'model' || origin === 'tenant') return ''
  const seconds = windowMs > 0 ? `;w=${windowMs / 1_000}` : ''
  return `"${nameIn(name, origin)}";q=${limit}${seconds};qu="${units[of]}"`
}

/** What a limit without a name, or one of a key, may be called in the `RateLimit` fields; or a name that was told from one. */
const taken = /^(limit-)*(key-.*|concurrency|(requests-)?\d+[smh])$/

/** In the `RateLimit` fields, where a key's follow those of its Subscription. No two are the same. */
function nameIn(name: string, origin: CountedLimit['origin']): string {
  const own = taken.test(name) ? `limit-${name}` : name
  return origin === 'key' ? `key-${own}` : own
}

const units = {
  tokens: 'tokens',
  input: 'input-tokens',
  output: 'output-tokens',
  requests: 'requests',
  concurrency: 'concurrent-requests',
} as const
