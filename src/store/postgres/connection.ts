/** One connection to Postgres: how it is made, what its values become, and how it is given up. */

import { connect, type NetConnectOpts, type Socket } from 'node:net'
import pg from 'pg'
import { createSql, type Rows, type Sql, type Statement } from './sql.ts'

export interface ConnectionOptions {
  /** A function is asked for each connection: its password may be another one by then. */
  readonly url: string | (() => string)
  /** What the database calls this connection. */
  readonly applicationName: string
  /** After which the server ends a statement, in milliseconds; never, when absent. */
  readonly statementTimeoutMs?: number
  /** Nothing sent over the connection can write, whatever it is. */
  readonly readOnly?: boolean
}

/** A client of the driver's whose socket is ours to destroy, and whose errors end no process. */
export interface Connection extends pg.Client {
  /**
   * Ends the connection at once, and on the server what runs on it. Whoever waits for an answer is
   * rejected; nothing of it is waited for, whether the server can still be reached or not.
   */
  abandon(): void
}

const connectDeadlineMs = 2_000
const cancelDeadlineMs = 1_000
const keepAliveAfterMs = 10_000
/** Of the protocol: what is in the place of a version in a request to cancel. */
const cancelRequestCode = 80_877_102
const timestamptz = pg.types.builtins.TIMESTAMPTZ

/** Milliseconds since the epoch in a Date: microseconds are cut off, what is no instant is invalid. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (type: number) =>
    type === timestamptz ? (text: string) => new Date(text) : pg.types.getTypeParser(type),
}

/** Makes connections that are not connected yet, as the driver's pool wants them. */
export function connectionClass(options: ConnectionOptions): new () => Connection {
  const { statementTimeoutMs, readOnly = false } = options
  const settings: pg.ClientConfig = {
    application_name: options.applicationName,
    ...(statementTimeoutMs !== undefined && { statement_timeout: statementTimeoutMs }),
    ...(readOnly && { options: '-c default_transaction_read_only=on' }),
    connectionTimeoutMillis: connectDeadlineMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
    types,
  }
  return class extends pg.Client implements Connection {
    constructor() {
      super({ ...settings, connectionString: connectionString(options.url) })
      // Who waits for an answer is told by it; a connection that nobody uses is made anew.
      this.on('error', () => {})
      // One that could not be made may be left open by the driver, for the server to wait for us.
      this.connection.on('error', () => this.connection.stream.destroy())
    }

    abandon(): void {
      const { remoteAddress, remotePort } = this.connection.stream as Socket
      // Not in the package's types: what the server gave for this, once connected.
      const { processID, secretKey } = this as unknown as Record<string, number | null>
      if (typeof processID === 'number' && typeof secretKey === 'number') {
        const place =
          remoteAddress === undefined || remotePort === undefined
            ? { path: `${this.host}/.s.PGSQL.${this.port}` }
            : { host: remoteAddress, port: remotePort }
        cancel(place, processID, secretKey)
      }
      this.connection.stream.destroy()
    }
  }
}

function connectionString(written: ConnectionOptions['url']): string {
  const url = new URL(typeof written === 'string' ? written : written())
  // What `sslmode` means is then what it means to every other client of Postgres.
  if (url.searchParams.has('sslmode')) url.searchParams.set('uselibpqcompat', 'true')
  return url.href
}

/** Queries over this one connection. */
export function sqlOver(connection: Connection): Sql {
  return createSql((statement, deadlineMs) => {
    return orGiveUp(ask(connection, statement), deadlineMs, () => {
      connection.abandon()
      return true
    })
  })
}

/** Sends a statement and answers its rows, those of the last one if there are several. */
export async function ask(
  connection: Connection,
  { text, values }: Statement,
): Promise<Rows<readonly object[]>> {
  const results = await connection.query(text, [...values])
  // Several statements have as many results, which the package's types do not say.
  const last = (Array.isArray(results) ? results.at(-1) : results) as pg.QueryResult
  return Object.assign(last.rows, { count: last.rowCount ?? 0 })
}

/** Nobody waits for a statement any more; `isReachable`: as far as is known, the server is there. */
export class GivenUp extends Error {
  readonly isReachable: boolean

  constructor(isReachable: boolean) {
    super(isReachable ? 'no answer in time' : 'no connection in time')
    this.isReachable = isReachable
  }
}

/** What `work` comes to, or a GivenUp after so long; `giveUp` then ends it. */
export async function orGiveUp<T>(
  work: Promise<T>,
  deadlineMs: number | undefined,
  giveUp: () => boolean,
): Promise<T> {
  if (deadlineMs === undefined) return await work
  const { promise: late, reject } = Promise.withResolvers<never>()
  let last: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    // An answer that came while this process stood still is read before the immediate.
    last = setImmediate(() => reject(new GivenUp(giveUp())))
  }, deadlineMs)
  try {
    // The race holds both, so that the one that comes too late is nobody's unhandled rejection.
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

/** Asks the server, over a connection of its own, to end what a process of it is doing. */
function cancel(place: NetConnectOpts, processId: number, secretKey: number): void {
  const request = Buffer.alloc(16)
  for (const [i, word] of [16, cancelRequestCode, processId, secretKey].entries()) {
    request.writeInt32BE(word, 4 * i)
  }
  const socket = connect(place, () => socket.end(request))
  socket.unref()
  socket.on('error', () => {})
  socket.resume()
  socket.setTimeout(cancelDeadlineMs, () => socket.destroy())
}
