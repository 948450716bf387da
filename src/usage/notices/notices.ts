/** Notices of limits: who has used how much of which, found beside the requests. */

import type { Exact } from '../../formats/exact.ts'
import { toEndTimestamp, toTimestamp } from '../../formats/timestamp.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import type { ResettableCounters } from '../../ratelimit/counters.ts'
import { type Counter, counterOf, limitStates } from '../../ratelimit/rules/counter.ts'
import type { Usage } from '../rules/usage.ts'
import type { NoticeStore } from './postgres-notices.ts'
import type { ExpiringKey, Notice } from './store.ts'

export interface NoticesDeps {
  readonly snapshot: () => Snapshot
  readonly readCounters: ResettableCounters['readFresh']
  readonly store: Pick<NoticeStore, 'add' | 'expiring'>
  /** Milliseconds since the epoch. */
  readonly clock: () => number
}

/** The most uses that wait to be looked at; further ones are looked at when their user is next. */
const maxWaiting = 10_000
/** Uses of one step. */
const maxUses = 500
const maxKeys = 500

type Use = Pick<Usage, 'user' | 'subscription' | 'model'>

export function createNotices({ snapshot, readCounters, store, clock }: NoticesDeps) {
  let waiting = new Map<string, Use>()

  function noticesOf({ user, subscription, model }: Use) {
    const found = snapshot().subscriptions.get(subscription)
    const percents = found?.resource.notifyAt ?? []
    const tokens = found?.limits.get(model)?.filter(({ kind }) => kind === 'tokens')
    return (tokens ?? []).map((limit) => {
      const counter: Counter = counterOf(limit, user)
      return {
        limit,
        counter,
        toNotices(used: Exact, endsAt: number): readonly Notice[] {
          const { windowMs } = limit
          return percents
            .filter((percent) => Number(used) * 100 >= Number(limit.limit) * percent)
            .map((percent) => ({
              subject: counter.key,
              percent,
              endsAt,
              windowMs,
              body: JSON.stringify({
                type: 'limit.reached',
                timestamp: toTimestamp(clock()),
                data: {
                  user,
                  subscription,
                  model,
                  window: limit.window,
                  limit: limit.limit,
                  used,
                  percent,
                  resetsAt: toEndTimestamp(endsAt),
                },
              }),
            }))
        },
      }
    })
  }

  return {
    /** Notes that a response was counted. It costs a look-up if its subscription asks for no notices. */
    note({ user, subscription, model }: Use): void {
      if (snapshot().subscriptions.get(subscription)?.resource.notifyAt === undefined) return
      const name = `${subscription}\n${model}\n${user}`
      if (waiting.size < maxWaiting) waiting.set(name, { user, subscription, model })
    },
    /** Records the notices of what was noted. If a store is unavailable, it is tried again next time. */
    async step(): Promise<void> {
      while (waiting.size > 0) {
        const some = [...waiting].slice(0, maxUses)
        const all = some.flatMap(([, use]) => noticesOf(use))
        for (const [name] of some) waiting.delete(name)
        try {
          const now = clock()
          const limits = all.map(({ limit }) => limit)
          const counters = all.map(({ counter }) => counter)
          const states = limitStates(limits, await readCounters(counters, now), now)
          await store.add(
            all.flatMap(({ toNotices }, i) => {
              const { used = 0, resetsAt = 0 } = states[i] ?? {}
              return toNotices(used, resetsAt)
            }),
          )
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
