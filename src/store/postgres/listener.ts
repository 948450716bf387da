/** A separate connection that receives notifications, and reconnects when it ends. */

import { connectionClass, databaseRetryMs, type PostgresConnection, sqlOver } from './connection.ts'

interface ListenerOptions {
  readonly url: string | (() => string)
  readonly channels: readonly string[]
  /** Called for each notification, and without one if some may have been missed. */
  readonly onNotification: (notification?: Notification) => void
}

export interface Notification {
  readonly channel: string
  readonly payload?: string | undefined
}

export type NotificationListener = ReturnType<typeof startListener>

const deadlineMs = 2_000

/**
 * Listens until it is stopped. Notifications may be missed for a while, so nothing may depend on
 * them.
 */
export function startListener({ url, channels, onNotification }: ListenerOptions) {
  const TollgateListener = connectionClass({
    url,
    applicationName: 'tollgate listener',
    statementTimeoutMs: deadlineMs,
  })
  const listen = channels.map((channel) => `listen "${channel}"`).join('; ')
  let current: PostgresConnection | undefined
  let retry: NodeJS.Timeout | undefined
  let isStopped = false

  function open(): void {
    if (isStopped) return
    const connection = new TollgateListener()
    current = connection
    connection.on('notification', onNotification)
    connection.on('end', () => {
      if (!isStopped) retry = setTimeout(open, databaseRetryMs)
    })
    connection
      .connect()
      .then(() => sqlOver(connection).unsafe(listen).run(deadlineMs))
      .then(
        () => onNotification(),
        () => connection.abandon(),
      )
  }

  open()
  return {
    stop(): void {
      isStopped = true
      clearTimeout(retry)
      current?.abandon()
    },
  }
}
