/** Caps of a key, compiled for the request path. */

import { getOrAdd } from '../../formats/lists.ts'
import { parseWindow } from '../../formats/time.ts'
import type { CompiledCaps, KeyLimits } from '../../identity/rules/caller.ts'
import type { WrittenCalendar } from '../../kinds/limits.ts'
import { keyOfModel } from '../../kinds/resources.ts'
import {
  compileNamedLimits,
  groupLimits,
  limitsForModel,
} from '../../ratelimit/rules/applicable-limits.ts'
import { chargedCounter } from '../../ratelimit/rules/charged-limits.ts'
import { toCountedLimits } from '../../ratelimit/rules/counted-limits.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { userInLines } from '../../ratelimit/rules/counter-key.ts'
import { toPolicyField } from '../../ratelimit/rules/limit-headers.ts'
import type { ApiKeyRecord } from './api-key.ts'
import { isUncapped, networksOf } from './key-caps.ts'
import { parseKeyLimits } from './key-limits.ts'

type CappedKey = Pick<ApiKeyRecord, 'id' | 'user' | 'subscription' | 'caps'>

/** Returns undefined if nothing is capped. */
export function compileCaps(key: CappedKey): CompiledCaps | undefined {
  const { caps } = key
  if (isUncapped(caps)) return undefined
  const { models, tokenRateLimits, limits, allowedAddresses } = caps
  return {
    models: models && new Set(models.map(keyOfModel)),
    networks: allowedAddresses && networksOf(allowedAddresses),
    limitsOn: tokenRateLimits === undefined && limits === undefined ? undefined : limitsOf(key),
  }
}

/** Its limits, compiled for a model when first asked for, and again for another calendar. */
function limitsOf({ id, user, subscription, caps }: CappedKey): CompiledCaps['limitsOn'] {
  const { tokenRateLimits = [], limits: written = [] } = caps
  const rates = tokenRateLimits.map(({ limit, window }) => {
    return { limit, window, windowMs: parseWindow(window) as number }
  })
  const of = { scope: 'key', key: { id, user } } as const
  const unnamed = toCountedLimits(subscription, '', rates, of)
  const windows = unnamed.map(({ windowMs }) => windowMs)
  const counted = unnamed.length === 0 ? undefined : `${id} ${windows.join(',')}`
  const named = parseKeyLimits(written)
  const whose = { subscription, organization: '', user: userInLines(user), keyId: id }
  const place = { resource: 'key', origin: 'key', whose } as const
  /** The models that some of the limits name; all others have the same limits. */
  const told = new Set(named.flatMap(({ models = [] }) => models.map(keyOfModel)))

  function compile(model: string | undefined, calendar: WrittenCalendar): KeyLimits {
    const { charged: items, ...compiled } = groupLimits(
      unnamed,
      limitsForModel(model, compileNamedLimits(named, calendar, place)),
    )
    const { limits, hasCostLimit } = compiled
    const charged = `"key_limits":${JSON.stringify(items)}${hasCostLimit ? ',"key_cost_limit":true' : ''}`
    return {
      ...compiled,
      policies: toPolicyField(limits),
      counted,
      charged: items.length === 0 ? undefined : charged,
    }
  }

  let last: WrittenCalendar | undefined
  const known = new Map<string | undefined, KeyLimits>()
  return (model, calendar) => {
    if (calendar !== last) known.clear()
    last = calendar
    const same = model === undefined || told.has(model) ? model : ''
    return getOrAdd(known, same, () => compile(same, calendar))
  }
}

/** The counters of the key with which a response was admitted; `counted`: from `KeyLimits`. */
export function keyCountersOf(
  counted: string | undefined,
  subscription: string,
  user: string,
): readonly Counter[] {
  const [, id = '', windows = ''] =
    /^(\S{1,64}) ([1-9]\d{0,11}(?:,[1-9]\d{0,11}){0,7})$/.exec(counted ?? '') ?? []
  if (id === '') return []
  const of = { resource: 'key', name: '', kind: 'tokens', per: 'key' } as const
  const whose = { user: userInLines(user), subscription, keyId: id, pool: '', organization: '' }
  return windows
    .split(',')
    .map((ms) => chargedCounter({ ...of, window: { ms: Number(ms) } }, whose))
}
