/** Notices to NOTIFY_URL. */

import { timedStop } from '../runtime/stops.ts'
import { startNotifier } from '../usage/notices/notifier.ts'
import { createNoticeStore } from '../usage/notices/postgres-notices.ts'
import type { WriterListenersDeps } from '../usage/writer-listeners.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'
import type { Resources } from './resources.ts'

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
