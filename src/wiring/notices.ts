/** Notices to NOTIFY_URL, as the settings say. */

import { part } from '../runtime/stops.ts'
import { startNotifier } from '../usage/notices/notifier.ts'
import { createNoticeStore } from '../usage/notices/postgres-notices.ts'
import type { Usage } from '../usage/rules/usage.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'
import type { Resources } from './resources.ts'

/** Notes a counted response; undefined: there is no NOTIFY_URL. */
export type NoteUse = ((usage: Usage) => void) | undefined

/** Starts to find and send them until the service stops. */
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
