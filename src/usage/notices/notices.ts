/** Finds nearly spent limits and records notices, without delaying requests. */

import { toAmount } from '../../formats/money.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/time.ts'
import {
  limitsOnModel,
  resourceOfCounter,
  sharerOfCounter,
} from '../../models/rules/shared-limits.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import {
  type ReadStatesDeps,
  readLimitStates,
} from '../../ratelimit/increases/read-limit-states.ts'
import type { Counter } from '../../ratelimit/rules/counter.ts'
import { counterOf } from '../../ratelimit/rules/counter-cache.ts'
import { type CountedLimit, isRequestLimit, type LimitState } from '../../ratelimit/rules/limit.ts'
import { boundsAt } from '../../ratelimit/rules/windows.ts'
import type { Usage } from '../rules/usage.ts'
import type { NoticeStore } from './postgres-notices.ts'
import type { ExpiringKey, Notice } from './store.ts'

export interface NoticesDeps extends ReadStatesDeps {
  readonly snapshot: () => Snapshot
  readonly store: Pick<NoticeStore, 'add' | 'expiring'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

/** Maximum number of uses that wait to be checked; for further ones the limits are checked after a later use. */
const maxWaiting = 10_000
/** Maximum number of uses that are checked at once. */
const maxUses = 500
const maxKeys = 500

type Use = Pick<Usage, 'user' | 'subscription' | 'model'> & { readonly pool?: string | undefined }

export function createNotices({ snapshot, store, clock, ...deps }: NoticesDeps) {
  let waiting = new Map<string, Use>()

  /** By counter key, since many uses may count in one pool. */
  function watchedBy(uses: readonly Use[]): ReadonlyMap<string, Watched> {
    const watched = new Map<string, Watched>()
    for (const { user, subscription, model, pool } of uses) {
      const found = snapshot().subscriptions.get(subscription)
      const percents = found?.resource.notifyAt ?? []
      for (const { limit } of found ? limitsOnModel(found, model) : []) {
        if (isRequestLimit(limit)) continue
        const counter = counterOf(limit, user, pool)
        // Subscriptions that share a limit may set different percentages.
        const known = watched.get(counter.key)?.percents ?? []
        const whose = whoseIs(limit, counter, { user, subscription, model })
        watched.set(counter.key, { limit, counter, whose, percents: [...known, ...percents] })
      }
    }
    return watched
  }

  function noticesOf(watched: Watched, { limit, used, resetsAt }: LimitState): readonly Notice[] {
    const { counter, percents, whose } = watched
    const { start, end } = boundsAt(limit.parsedWindow, counter.owner, resetsAt - 1)
    return [...new Set(percents)]
      .filter((percent) => BigInt(used) * 100n >= BigInt(limit.limit) * BigInt(percent))
      .map((percent) => ({
        subject: counter.key,
        percent,
        endsAt: resetsAt,
        windowMs: end - start,
        body: JSON.stringify({
          type: 'limit.reached',
          timestamp: toTimestamp(clock()),
          data: {
            ...whose,
            window: limit.window,
            limit: toAmount(limit, limit.limit),
            used: toAmount(limit, used),
            percent,
            resetsAt: toEndTimestamp(resetsAt),
          },
        }),
      }))
  }

  return {
    /** Notes a counted response. Costs only a look-up if its subscription asks for no notices. */
    note({ user, subscription, model, pool }: Use): void {
      if (snapshot().subscriptions.get(subscription)?.resource.notifyAt === undefined) return
      const name = `${subscription}\n${model}\n${pool ?? ''}\n${user}`
      if (waiting.size < maxWaiting) waiting.set(name, { user, subscription, model, pool })
    },
    /**
     * Records notices for the responses noted before it; those noted meanwhile wait for the next step. If a store is
     * unavailable, the next step retries.
     */
    async step(): Promise<void> {
      for (let left = waiting.size; left > 0; left -= maxUses) {
        const some = [...waiting].slice(0, Math.min(left, maxUses))
        for (const [name] of some) waiting.delete(name)
        const all = [...watchedBy(some.map(([, use]) => use)).values()]
        try {
          const states = await readLimitStates(deps, all, clock())
          await store.add(all.flatMap((each, i) => noticesOf(each, states[i] as LimitState)))
        } catch (error) {
          waiting = new Map([...some, ...waiting])
          throw error
        }
      }
    },
    /** Records the notices of keys that expire soon. */
    async lookAtKeys(): Promise<void> {
      await store.add((await store.expiring(maxKeys)).map(noticeOfKey))
    },
  }

  function noticeOfKey({ id, name, user, subscription, expiresAt }: ExpiringKey): Notice {
    return {
      subject: `key ${id}`,
      percent: 0,
      endsAt: expiresAt,
      windowMs: 0,
      body: JSON.stringify({
        type: 'key.expiring',
        timestamp: toTimestamp(clock()),
        data: { id, name, user, subscription, expiresAt: toTimestamp(expiresAt) },
      }),
    }
  }
}

/** A counter, the percentages at which a notice is due, and the fields of the notice that describe whose use it is. */
interface Watched {
  readonly limit: CountedLimit
  readonly counter: Counter
  readonly percents: readonly number[]
  readonly whose: Readonly<Record<string, string>>
}

/** Describes whose use it is: for a shared limit the group, and none of its users. */
function whoseIs(limit: CountedLimit, counter: Counter, use: Omit<Use, 'pool'>) {
  const { limitName: name, scope, kind } = limit
  if (name === undefined) return { ...use }
  const whom = sharerOfCounter(limit, counter)
  const whose = scope === 'user' ? { user: use.user } : whom === undefined ? {} : { whom }
  return { ...whose, resource: resourceOfCounter(counter), name, scope, kind }
}
