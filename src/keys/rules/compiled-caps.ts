/** Caps of a key, compiled for the request path. */

import { parseWindow } from '../../formats/duration.ts'
import type { CompiledCaps } from '../../identity/rules/caller.ts'
import { type Counter, toCountedLimits } from '../../ratelimit/rules/counter.ts'
import { countedAs, counterKey } from '../../ratelimit/rules/counter-key.ts'
import { toPolicies } from '../../ratelimit/rules/limit-headers.ts'
import { userInLines } from '../../ratelimit/rules/line-user.ts'
import { isUncapped, type KeyCaps, modelKeyOf, networksOf } from './key-caps.ts'

interface CappedKey {
  readonly id: string
  readonly user: string
  readonly subscription: string
  readonly caps: KeyCaps
}

/** undefined: nothing is capped. */
export function compileCaps({ id, user, subscription, caps }: CappedKey): CompiledCaps | undefined {
  if (isUncapped(caps)) return undefined
  const { models, tokenRateLimits = [], allowedAddresses } = caps
  const raw = tokenRateLimits.map(({ limit, window }) => {
    return { limit, window, windowMs: parseWindow(window) as number }
  })
  const limits = toCountedLimits(subscription, scopeOf(id), raw, {
    scope: 'key',
    key: { id, user },
  })
  return {
    models: models && new Set(models.map(modelKeyOf)),
    networks: allowedAddresses && networksOf(allowedAddresses),
    limits,
    policies: toPolicies(limits),
    counted:
      limits.length === 0 ? undefined : `${id} ${limits.map(({ windowMs }) => windowMs).join(',')}`,
  }
}

/** The counters of the key with which a response was admitted; `counted` is that of its caps. */
export function keyCountersOf(
  counted: string | undefined,
  subscription: string,
  user: string,
): readonly Counter[] {
  const [, id = '', windows = ''] =
    /^(\S{1,64}) ([1-9]\d{0,11}(?:,[1-9]\d{0,11}){0,7})$/.exec(counted ?? '') ?? []
  if (id === '') return []
  const of = { subscription, model: scopeOf(id), user: userInLines(user) }
  return windows.split(',').map((raw) => {
    const ms = Number(raw)
    const key = counterKey({ ...of, counted: countedAs('tokens', ms) })
    return { key, owner: id, window: { ms } }
  })
}

/** Stands for the model in the key of a counter; no model has such a name. */
function scopeOf(id: string): string {
  return `@${id}`
}
