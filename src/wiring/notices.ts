/** Notices to NOTIFY_URL: found, recorded and sent beside the requests. */

import type { Usage } from '../core/decision/usage.ts'
import { createNotices } from '../ratelimit/notices/notices.ts'
import { createSend } from '../ratelimit/notices/send.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { createLineLimit } from '../runtime/line-limit.ts'
import { repeat } from '../runtime/loop.ts'
import { part } from '../runtime/stops.ts'
import { createNoticeStore } from '../store/notices/postgres.ts'
import type { Context } from './context.ts'
import type { Counters } from './counters.ts'
import type { Database } from './database.ts'
import type { Resources } from './resources.ts'

const restMs = 1_000
const keysEveryMs = 60_000
/** Between two lines about a receiver that cannot be reached. */
const quietMs = 30_000

/** Notes a counted response; undefined: there is no NOTIFY_URL. */
export type NoteUse = ((usage: Usage) => void) | undefined

/** Starts to find and send them until the service stops. */
export function startNotices(
  { config, log, clock, stops }: Context,
  { pool }: Database,
  { counters }: Pick<Counters, 'counters'>,
  { snapshot }: Resources,
): NoteUse {
  const { notifyUrl: url, notifySecret: secret } = config
  if (url === undefined || secret === undefined) return undefined
  const store = createNoticeStore(pool)
  const notices = createNotices({ snapshot, readCounters: counters.readFresh, store, clock })
  const lines = createLineLimit(quietMs)
  const send = createSend({
    ...{ url, secret, store, clock },
    onFailed({ id }, problem, isLast) {
      if (isLast) log.error({ notice: id, problem }, 'a notice is given up: NOTIFY_URL')
      else if (lines.pass('', clock()) !== undefined)
        log.warn({ notice: id, problem }, 'a notice cannot be sent: NOTIFY_URL')
    },
  })
  const ending = new AbortController()
  const { signal } = ending
  const onFault = (error: unknown): void => {
    if (lines.pass('fault', clock()) === undefined) return
    log.warn({ cause: errorMessage(error) }, 'notices cannot be recorded or sent')
  }
  const loops = Promise.all([
    repeat({ restMs, signal, onFault, step: notices.step }),
    repeat({ restMs, signal, onFault, step: send }),
    repeat({ restMs: keysEveryMs, signal, onFault, step: notices.lookAtKeys }),
    repeat({ restMs: keysEveryMs, signal, onFault, step: store.tidy }),
  ])
  stops.push(
    part('notices', async () => {
      ending.abort()
      await loops
      await notices.step().catch(() => {})
    }),
  )
  return notices.note
}
