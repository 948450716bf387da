/** A connection of its own that hears notifications, thrown away and made anew when it fails. */

import { type Connection, connectionClass, sqlOver } from '../postgres/connection.ts'
import { within } from '../postgres/postgres.ts'
import type { Sql } from '../postgres/sql.ts'

export interface Listener {
  /** The connection while it listens; statements over it prove that it is alive. */
  connection(): Sql | undefined
  /** Throws away a connection that is not to be trusted; another one is made at once. */
  drop(connection: Sql): void
  stop(): Promise<void>
}

export interface ListenerOptions {
  readonly url: string
  readonly channels: readonly string[]
  readonly onHeard: (channel: string) => void
  /** It listens from now on: what was notified before it may have missed. */
  readonly onUp: () => void
  /** It no longer does. */
  readonly onDown: () => void
}

const openDeadlineMs = 2_000
const retryMs = 250

/** Starts listening; `onUp` tells when it does. */
export function startListener(options: ListenerOptions): Listener {
  let current: { readonly sql: Sql; readonly connection: Connection } | undefined
  let retry: NodeJS.Timeout | undefined
  let isStopped = false
  let opening: Promise<void> = Promise.resolve()
  const TollgateListener = connectionClass({
    url: options.url,
    applicationName: 'tollgate listener',
    statementTimeoutMs: openDeadlineMs,
  })

  /** A connection is never used again once it has failed: another one listens in its place. */
  async function open(): Promise<void> {
    const connection = new TollgateListener()
    const sql = sqlOver(connection)
    connection.on('notification', ({ channel }) => options.onHeard(channel))
    connection.on('end', () => drop(sql))
    try {
      await connection.connect()
      await within(sql.unsafe(listenTo(options.channels)), openDeadlineMs)
    } catch {
      connection.abandon()
      if (!isStopped) retry = setTimeout(begin, retryMs)
      return
    }
    if (isStopped) return connection.abandon()
    current = { sql, connection }
    options.onUp()
  }

  function begin(): void {
    opening = open()
  }

  function drop(sql: Sql): void {
    if (sql !== current?.sql) return
    current.connection.abandon()
    current = undefined
    if (!isStopped) begin()
    options.onDown()
  }

  begin()
  return {
    connection: () => current?.sql,
    drop,
    async stop() {
      isStopped = true
      clearTimeout(retry)
      current?.connection.abandon()
      current = undefined
      await opening
    },
  }
}

function listenTo(channels: readonly string[]): string {
  return channels.map((channel) => `listen "${channel}"`).join('; ')
}
