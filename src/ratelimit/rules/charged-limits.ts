/**
 * Limits by name in the form that lines have, and their counters. A line has everything that the counter of such a
 * limit depends on, so its charge is known without any resource.
 */

import { memoize } from '../../formats/memoize.ts'
import { maxWindowMs } from '../../formats/time.ts'
import { type LimitKind, type LimitScope, limitKinds, limitScopes } from '../../kinds/limits.ts'
import type { Counter } from './counter.ts'
import { counterKeyPrefix, unitText } from './counter-key.ts'
import { parseWindowText, type Window, windowText } from './windows.ts'

export interface ChargedLimit {
  /** A Subscription's name, `ModelRef/<namespace>/<name>`, `Tenant`, or `key`: the key of the request. */
  readonly resource: string
  /** Empty for a limit without a name, on one model or of a key; lines do not have such limits. */
  readonly name: string
  readonly kind: LimitKind
  readonly per: LimitScope
  readonly window: Window
}

/** The names that determine whose request it is, as in lines. */
export interface RequestOwner {
  readonly user: string
  readonly subscription: string
  /** Empty for identity tokens. */
  readonly keyId: string
  /** The first group of the Subscription's owners that the caller is in; empty if the caller is listed by name. */
  readonly pool: string
  /** Empty if the Subscription names none. */
  readonly organization: string
  /** `<namespace>/<name>`, for limits without a name. */
  readonly model?: string
}

/** Text without a space: `<resource> <name> <kind> <per> <window>`. */
export function formatChargedLimit({ resource, name, kind, per, window }: ChargedLimit): string {
  return `${resource} ${name} ${kind} ${per} ${windowText(window)}`
}

const forms = /^(\S{1,400}) (\S{1,63}) (\S{1,11}) (\S{1,12}) (\S{1,80})$/

/** Lines of one period have few different texts; beyond this many the cache is cleared. */
const maxRead = 10_000

/** Returns undefined for any other text, and mostly the same object for equal texts. Never throws. */
export const parseChargedLimit = memoize(maxRead, (text): ChargedLimit | undefined => {
  const [, resource = '', name = '', kind = '', per = '', written = ''] = forms.exec(text) ?? []
  const [window, of] = [parseWindowText(written), limitKinds.find((each) => each === kind)]
  const scope = limitScopes.find((each) => each === per)
  if (of === undefined || scope === undefined || window === undefined) return undefined
  return { resource, name, kind: of, per: scope, window }
})

/** Names whose use the counter of this request adds up; empty if the limit has only one counter. */
export function counterOwnerOf(
  { per, resource }: Pick<ChargedLimit, 'per' | 'resource'>,
  whose: RequestOwner,
) {
  if (per === 'user' || per === 'key') return whose.user
  if (per === 'group') return whose.pool
  if (per === 'organization') return whose.organization
  // The Subscription's own limit has one counter.
  return per === 'subscription' && resource !== whose.subscription ? whose.subscription : ''
}

/**
 * The counter of a limit for a request. The owner, which determines when the counter's windows begin, is the user, the
 * key, or the counter itself.
 */
export function chargedCounter(charged: ChargedLimit, whose: RequestOwner): Counter {
  const whom = counterOwnerOf(charged, whose)
  const key = counterKeyPrefixOf(charged, whose) + whom
  const owner = charged.per === 'user' ? whom : charged.per === 'key' ? whose.keyId : key
  return { key, owner, window: charged.window }
}

/** The keys of a limit's counters without the user or the group. */
export function counterKeyPrefixOf(
  { resource, name, kind, per, window }: ChargedLimit,
  { subscription, keyId, model = '' }: Pick<RequestOwner, 'subscription' | 'keyId' | 'model'>,
): string {
  // Not by `resource`, since a Subscription may be named `key`.
  const isOfKey = per === 'key'
  const whole = isOfKey ? `@${keyId}` : ''
  return counterKeyPrefix({
    subscription: isOfKey ? subscription : resource,
    model: name === '' ? whole || model : `${whole}#${name}`,
    counted:
      name === '' && 'ms' in window ? unitText(kind, window.ms) : `${kind}-${windowText(window)}`,
  })
}

const windowsForm = /^([\d,]{0,260})\/([\d,]{0,260})$/

const readWindows = memoize(maxRead, (text) => {
  const [, tokens = '', requests = ''] = windowsForm.exec(text) ?? []
  const read = (list: string) =>
    list.split(',').flatMap((ms) => (+ms >= 1 && +ms <= maxWindowMs ? +ms : []))
  return { tokens: read(tokens), requests: read(requests) }
})

/** The counters of limits without a name that have these windows, a text from `windowsText`; none for any other text. */
export function countersOfWindows(
  text: string,
  kind: 'tokens' | 'requests',
  whose: RequestOwner,
): Counter[] {
  const limit = { resource: whose.subscription, name: '', kind, per: 'user' } as const
  return readWindows(text)[kind].map((ms) => chargedCounter({ ...limit, window: { ms } }, whose))
}
