/** Notifications between the processes of a database: one connection receives all of them. */

import { createOthersRefusals } from '../cluster/shared-refusals.ts'
import { resetsChannel } from '../ratelimit/sums/postgres-resets.ts'
import { startListener } from '../store/postgres/listener.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'

type Own = Pick<Parameters<typeof createOthersRefusals>[0], 'id' | 'own'>

/** Listens until the service stops. */
export function startNotifications(
  { clock, onFault, stops }: Context,
  { pool, url }: Database,
  own: Own,
  { resets }: Pick<Counters, 'resets'>,
) {
  const othersRefusals = createOthersRefusals({ ...own, sql: pool, clock, onFault })
  const listener = startListener({
    url,
    channels: [...othersRefusals.channels, resetsChannel],
    onNotification(notification) {
      if (notification === undefined || notification.channel === resetsChannel) resets?.ring()
      else othersRefusals.hear(notification)
    },
  })
  stops.push(listener.stop)
  return othersRefusals
}
