/** Finds, records and sends notices in the background, until it is stopped. */

import type { Logger } from 'pino'
import { errorMessage } from '../../runtime/error-message.ts'
import { createLineLimit } from '../../runtime/line-limit.ts'
import { repeat } from '../../runtime/loop.ts'
import { createNotices, type NoticesDeps } from './notices.ts'
import type { NoticeStore } from './postgres-notices.ts'
import { createNoticeSender } from './send.ts'

interface NotifierOptions extends Omit<NoticesDeps, 'store'> {
  readonly store: NoticeStore
  readonly url: string
  readonly secret: Buffer
  readonly log: Logger
}

const restMs = 1_000
const keysEveryMs = 60_000
/** Minimum interval between two log lines about a receiver that cannot be reached. */
const quietMs = 30_000

/** `note` notes a counted response; `stop` records the last ones. */
export function startNotifier(options: NotifierOptions) {
  const { url, secret, store, clock, log } = options
  const notices = createNotices(options)
  const lines = createLineLimit(quietMs)
  const ending = new AbortController()
  const { signal } = ending
  const send = createNoticeSender({
    url,
    secret,
    store,
    clock,
    signal,
    onFailed({ id }, problem, isLast) {
      if (isLast)
        log.error(
          { code: 'notice_abandoned', notice: id, problem },
          'cannot send a notice to NOTIFY_URL: giving up',
        )
      else if (lines.pass('', clock()) !== undefined)
        log.warn(
          { code: 'notice_delayed', notice: id, problem },
          'cannot send a notice to NOTIFY_URL: will retry',
        )
    },
  })
  const onFault = (error: unknown): void => {
    if (lines.pass('fault', clock()) === undefined) return
    log.warn(
      { code: 'notices_failing', cause: errorMessage(error) },
      'cannot record or send notices: will retry',
    )
  }
  const loops = Promise.all([
    repeat({ restMs, signal, onFault, step: notices.step }),
    repeat({ restMs, signal, onFault, step: send }),
    repeat({ restMs: keysEveryMs, signal, onFault, step: notices.lookAtKeys }),
    repeat({ restMs: keysEveryMs, signal, onFault, step: store.tidy }),
  ])
  return {
    note: notices.note,
    async stop(): Promise<void> {
      ending.abort()
      await loops
      await notices.step().catch(() => {})
    },
  }
}
