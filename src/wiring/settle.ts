/**
 * Connects the consumers of the gateway's lines: releases, health of models, metrics, estimates, notices to NOTIFY_URL.
 */

import type { createModelHealth } from '../models/model-health.ts'
import { timedStop } from '../runtime/stops.ts'
import { createHoldFollower, type HoldFollowerDeps } from '../usage/hold-follower.ts'
import { startNotifier } from '../usage/notices/notifier.ts'
import { createNoticeStore } from '../usage/notices/postgres-notices.ts'
import { createLineSettler, type LineSettler } from '../usage/settle.ts'
import { createWriterListeners, type WriterListenersDeps } from '../usage/writer-listeners.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'
import type { Resources } from './resources.ts'

interface LineParts extends HoldFollowerDeps, Omit<WriterListenersDeps, 'log'> {
  readonly health: Pick<ReturnType<typeof createModelHealth>, 'note' | 'tell'>
}

export function openSettle({ log, clock }: Context, parts: LineParts): LineSettler {
  return createLineSettler({
    holds: createHoldFollower(parts),
    clock,
    all: { onEnded: parts.health.note },
    writer: createWriterListeners({ ...parts, log }),
  })
}

/** Finds and sends notices until the service stops; returns the function to call for a counted response, or undefined without NOTIFY_URL. */
export function startNotices(
  { config, log, clock, stops }: Context,
  { pool }: Database,
  counters: () => Pick<Counters, 'counters'>,
  { snapshot }: Resources,
  { increases }: Pick<Keys, 'increases'>,
): WriterListenersDeps['noteUse'] {
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
  stops.push(timedStop('notices', notifier.stop))
  return notifier.note
}
