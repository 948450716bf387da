/**
 * Connects what processes the gateway's lines: releases, health of models, metrics, estimates, notices to NOTIFY_URL.
 */

import type { createModelHealth } from '../models/model-health.ts'
import { part } from '../runtime/stops.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { createHoldFollower, type HoldFollowerDeps } from '../usage/hold-follower.ts'
import { startNotifier } from '../usage/notices/notifier.ts'
import { createNoticeStore } from '../usage/notices/postgres-notices.ts'
import type { Usage } from '../usage/rules/usage.ts'
import { createSettle, type Settle } from '../usage/settle.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'
import type { Resources } from './resources.ts'

interface Followers extends HoldFollowerDeps {
  readonly health: Pick<ReturnType<typeof createModelHealth>, 'note' | 'tell'>
  readonly telemetry: Telemetry
  readonly noteUse: NoteUse
  /** Called with the id of a key that was used without a Check, and when (ms since the epoch). */
  readonly noteKeyUse: (keyId: string, at: number) => void
}

export function openSettle({ log, clock }: Context, followers: Followers): Settle {
  const { health, telemetry, noteUse, noteKeyUse } = followers
  return createSettle({
    holds: createHoldFollower(followers),
    clock,
    all: { onEnded: health.note },
    writer: {
      onEnded(outcome) {
        health.tell(outcome)
        telemetry.onEnded(outcome)
      },
      onAdmitted(usage, startedAt) {
        telemetry.onAdmitted(usage)
        if (usage.keyId !== undefined) noteKeyUse(usage.keyId, startedAt)
      },
      onCharged(usage, { tokens = 0, estimated, unusable }) {
        if (unusable) {
          telemetry.onUnusable(usage.model)
          log.warn(
            { code: 'usage_unusable', model: usage.model, estimated: tokens },
            'a response has no usable usage',
          )
        }
        if (tokens === 0) return
        telemetry.onCounted(usage, { tokens, estimated })
        noteUse?.(usage)
      },
    },
  })
}

/** Notes a counted response; undefined without NOTIFY_URL. */
type NoteUse = ((usage: Usage) => void) | undefined

/** Finds and sends notices until the service stops. */
export function startNotices(
  { config, log, clock, stops }: Context,
  { pool }: Database,
  counters: () => Pick<Counters, 'counters'>,
  { snapshot }: Resources,
  { increases }: Pick<Keys, 'increases'>,
): NoteUse {
  const { notifyUrl: url, notifySecret: secret } = config
  if (url === undefined || secret === undefined) return undefined
  const store = createNoticeStore(pool)
  const notifier = startNotifier({
    url,
    secret,
    store,
    log,
    clock,
    snapshot,
    readCounters: (...read) => counters().counters.readFresh(...read),
    raise: increases.raise,
  })
  stops.push(part('notices', notifier.stop))
  return notifier.note
}
