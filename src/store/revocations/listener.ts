/** A connection of its own that hears notifications, thrown away and made anew when it fails. */

import postgres from 'postgres'
import { within } from '../postgres/postgres.ts'

export interface Listener {
  /** The connection while it listens; statements over it prove that it is alive. */
  connection(): postgres.Sql | undefined
  /** Throws away a connection that is not to be trusted; another one is made at once. */
  drop(connection: postgres.Sql): void
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
  let current: postgres.Sql | undefined
  let retry: NodeJS.Timeout | undefined
  let isStopped = false
  let opening: Promise<void> = Promise.resolve()

  async function open(): Promise<void> {
    const connection = connect(options, () => drop(connection))
    try {
      await within(connection.unsafe(listenTo(options.channels)), openDeadlineMs)
    } catch {
      void discard(connection)
      if (!isStopped) retry = setTimeout(begin, retryMs)
      return
    }
    if (isStopped) return await discard(connection)
    current = connection
    options.onUp()
  }

  function begin(): void {
    opening = open()
  }

  function drop(connection: postgres.Sql): void {
    if (connection !== current) return
    current = undefined
    void discard(connection)
    if (!isStopped) begin()
    options.onDown()
  }

  begin()
  return {
    connection: () => current,
    drop,
    async stop() {
      isStopped = true
      clearTimeout(retry)
      const last = current
      current = undefined
      if (last !== undefined) await discard(last)
      await opening
    },
  }
}

/**
 * One connection, which is never used again once it has failed: the client would connect anew
 * without listening, and has been seen not to recover when its server dies while it writes.
 */
function connect({ url, onHeard }: ListenerOptions, onClose: () => void): postgres.Sql {
  const settings = {
    max: 1,
    connect_timeout: openDeadlineMs / 1_000,
    max_lifetime: null,
    fetch_types: false,
    onnotice: () => {},
    // Not in the package's types; its own `listen` is built on it, but does not tell of an end.
    onnotify: onHeard,
    onclose: onClose,
    connection: { application_name: 'tollgate listener', statement_timeout: openDeadlineMs },
  }
  return postgres(url, settings)
}

function listenTo(channels: readonly string[]): string {
  return channels.map((channel) => `listen "${channel}"`).join('; ')
}

function discard(connection: postgres.Sql): Promise<void> {
  return connection.end({ timeout: 0 }).catch(() => {})
}
