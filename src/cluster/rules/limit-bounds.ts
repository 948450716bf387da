/**
 * By how much limits by name can be exceeded: a number if all users of a limit reserve, else what requests in progress
 * use.
 */

import { addExact, type ExactInt, toExact } from '../../formats/exact.ts'
import type { LimitScope, NamedLimit } from '../../kinds/limits.ts'
import { resourceOfCounter } from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { type CountedLimit, isRequestLimit } from '../../ratelimit/rules/limit.ts'

export interface LimitBound extends Pick<NamedLimit, 'name' | 'of' | 'per' | 'window' | 'limit'> {
  /** A Subscription's name, `ModelRef/<namespace>/<name>` or `Tenant`. */
  readonly resource: string
  /** Maximum beyond the limit, of cost in nano-units, or undefined if requests in progress have no bound. */
  readonly beyond: ExactInt | undefined
  /** Why there is no such number: Subscriptions that do not reserve, and models whose servers ignore maxima. */
  readonly because: readonly string[]
  /** Maximum number of requests in progress, if limits on concurrency bound it. */
  readonly inProgress: ExactInt | undefined
}

/** A limit, and the bound of each model under each Subscription that uses it. */
interface Drawn {
  readonly limit: CountedLimit
  readonly because: Set<string>
  overshoot: number
  /** Limits on requests in progress, each once, or undefined if some requests have none. */
  concurrency: Map<string, ExactInt> | undefined
}

/** One for each enforced limit by name whose usage is known only when a response has ended, ordered by name. */
export function limitBounds({ subscriptions, models }: Snapshot): readonly LimitBound[] {
  const all = new Map<string, Drawn>()
  for (const { name, admission, limits } of subscriptions.values()) {
    for (const [model, applying] of limits) {
      const ignores = models.get(model)?.resource.output?.honoursMaxTokens === false
      const slots = applying
        .filter(({ kind }) => kind === 'concurrency')
        .sort((a, b) => (a.limit < b.limit ? -1 : 1))
      const fewest = { ofUser: slots[0], ofAll: slots.find(({ scope }) => !isOfSome(scope)) }
      for (const limit of applying) {
        // A limit on requests is charged before a request is sent, so it is never exceeded.
        if (limit.limitName === undefined || isRequestLimit(limit)) continue
        const id = idOf(limit, model)
        const fresh = { limit, because: new Set<string>(), overshoot: 0, concurrency: new Map() }
        const drawn: Drawn = all.get(id) ?? fresh
        all.set(id, drawn)
        if (admission === undefined) drawn.because.add(`${name} does not reserve`)
        else if (ignores) drawn.because.add(`the server of ${model} ignores maxima`)
        drawn.overshoot = Math.max(drawn.overshoot, admission?.overshoot ?? 0)
        const slot = limit.scope === 'user' ? fewest.ofUser : fewest.ofAll
        if (slot === undefined) drawn.concurrency = undefined
        else drawn.concurrency?.set(idOf(slot, model), slot.limit)
      }
    }
  }
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, drawn]) => toBound(id, drawn))
}

function toBound(id: string, { limit, because, overshoot, concurrency }: Drawn): LimitBound {
  const { limitName: name = '', kind: of, scope: per, window } = limit
  const percent = BigInt(Math.round(overshoot * 100))
  return {
    ...{ resource: id.slice(0, id.indexOf(' ')), name, of, per, window, limit: limit.limit },
    beyond: because.size > 0 ? undefined : toExact((BigInt(limit.limit) * percent) / 100n),
    because: [...because],
    inProgress: concurrency && [...concurrency.values()].reduce(addExact),
  }
}

/** Whether a limit of this scope bounds the requests in progress of some users only, and each of these users alone. */
function isOfSome(scope: LimitScope): boolean {
  return scope === 'user' || scope === 'group' || scope === 'key'
}

/** The same id for all counters of a limit: `<resource> <name>`, or without a name the model. */
function idOf({ keyPrefix, limitName }: CountedLimit, model: string): string {
  return `${resourceOfCounter({ key: keyPrefix })} ${limitName ?? model}`
}
