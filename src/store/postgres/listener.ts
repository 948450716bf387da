/** A separate connection that receives notifications, and reconnects when it ends. */

import { repeat } from '../../runtime/loop.ts'
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

export type NotificationListener = ReturnType<typeof startNotificationListener>

const deadlineMs = 2_000

/** Listens until it is stopped. Notifications may be missed for a while, so nothing may depend on them. */
export function startNotificationListener({ url, channels, onNotification }: ListenerOptions) {
  const TollgateListener = connectionClass({
    url,
    applicationName: 'tollgate listener',
    statementTimeoutMs: deadlineMs,
  })
  const listen = channels.map((channel) => `listen "${channel}"`).join('; ')
  const stopping = new AbortController()
  const { signal } = stopping
  let current: PostgresConnection | undefined

  /** Resolves when a connection has ended. */
  async function listenOnce(): Promise<void> {
    const connection = new TollgateListener()
    current = connection
    const ended = new Promise<void>((settle) => connection.on('end', () => settle()))
    connection.on('notification', onNotification)
    try {
      await connection.connect()
      await sqlOver(connection).unsafe(listen).run(deadlineMs)
      onNotification()
    } catch {
      connection.abandon()
    }
    await ended
  }

  void repeat({ step: listenOnce, restMs: databaseRetryMs, onFault() {}, signal })
  return {
    stop(): void {
      stopping.abort()
      current?.abandon()
    },
  }
}
