/** A connection to Postgres: how it is opened, how values are converted, and how it is abandoned. */

import { connect, type NetConnectOpts, type Socket } from 'node:net'
import pg from 'pg'
import { createSql, type Rows, type Sql, type Statement } from './sql.ts'

export interface ConnectionOptions {
  /** A function is called for each connection, so that the password may change. */
  readonly url: string | (() => string)
  /** The name of this connection in the database. */
  readonly applicationName: string
  /** The server cancels a statement after this many milliseconds; never if undefined. */
  readonly statementTimeoutMs?: number
  /** The server refuses all writes over this connection. */
  readonly readOnly?: boolean
}

/** A client of the driver whose socket we can destroy, and whose errors never end the process. */
export interface PostgresConnection extends pg.Client {
  /**
   * Closes the connection at once, and cancels its running statement at the server. Pending queries are rejected. Waits
   * for nothing, whether or not the server can be reached.
   */
  abandon(): void
}

/** Milliseconds between two attempts while the database does not respond. */
export const databaseRetryMs = 250
const connectDeadlineMs = 2_000
const cancelDeadlineMs = 1_000
const keepAliveAfterMs = 10_000
/** The protocol's code in place of a version in a cancel request. */
const cancelRequestCode = 80_877_102
const timestamptz = pg.types.builtins.TIMESTAMPTZ

const types: pg.CustomTypesConfig = {
  getTypeParser: (type: number) => (type === timestamptz ? toDate : pg.types.getTypeParser(type)),
}

/**
 * Dates have milliseconds, so microseconds are cut off. Infinite instants, and those outside of the years 100 to 9999, which RFC
 * 3339 or the parser of dates lacks, become the nearest.
 */
function toDate(text: string): Date {
  if (/^(?!00)\d{4}-.*\d$/.test(text)) return new Date(text)
  if (/^(-infinity|00\d\d-.*|\d+-.* BC)$/.test(text)) return new Date('0100-01-01T00:00:00Z')
  if (/^(infinity|\d{5,}-.*)$/.test(text)) return new Date(lastInstant)
  // Otherwise an expired key could be taken for one that never expires.
  throw new Error('the database sends dates in another style than ISO (DateStyle)')
}

/** The last one with a year of four digits. */
export const lastInstant = '9999-12-31T23:59:59Z'

/** A class of connections that are not open yet, as the driver's pool expects. */
export function connectionClass(options: ConnectionOptions): new () => PostgresConnection {
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
  return class extends pg.Client implements PostgresConnection {
    constructor() {
      super({ ...settings, connectionString: connectionString(options.url) })
      // Pending queries report the error; an idle connection is replaced.
      this.on('error', () => {})
      // The driver may leave a failed connection open, with the server waiting for us.
      this.connection.on('error', () => this.connection.stream.destroy())
    }

    /**
     * Missing in the package's types: the parameters of the startup message. Of a database with another style no date could
     * be read. Not in `options`, which poolers may refuse.
     */
    getStartupConf(): object {
      const { getStartupConf } = pg.Client.prototype as unknown as { getStartupConf(): object }
      return { ...getStartupConf.call(this), DateStyle: 'ISO' }
    }

    abandon(): void {
      const { remoteAddress, remotePort } = this.connection.stream as Socket
      // Missing in the package's types: sent by the server after connecting.
      const { processID, secretKey } = this as unknown as Record<string, number | null>
      if (typeof processID === 'number' && typeof secretKey === 'number') {
        const server =
          remoteAddress === undefined || remotePort === undefined
            ? { path: `${this.host}/.s.PGSQL.${this.port}` }
            : { host: remoteAddress, port: remotePort }
        cancel(server, processID, secretKey)
      }
      this.connection.stream.destroy()
    }
  }
}

function connectionString(written: ConnectionOptions['url']): string {
  const url = new URL(typeof written === 'string' ? written : written())
  // Then `sslmode` means the same as for every other Postgres client.
  if (url.searchParams.has('sslmode')) url.searchParams.set('uselibpqcompat', 'true')
  return url.href
}

/** Queries over this connection. */
export function sqlOver(connection: PostgresConnection): Sql {
  return createSql((statement, deadlineMs) => {
    return abandonAfter(runStatement(connection, statement), deadlineMs, () => {
      connection.abandon()
      return true
    })
  })
}

/** Sends a statement and returns its rows; of several statements, the rows of the last one. */
export async function runStatement(
  connection: PostgresConnection,
  { text, values }: Statement,
): Promise<Rows<readonly object[]>> {
  const results = await connection.query(text, [...values])
  // Several statements have several results, which the package's types do not express.
  const last = (Array.isArray(results) ? results.at(-1) : results) as pg.QueryResult
  return Object.assign(last.rows, { count: last.rowCount ?? 0 })
}

/** A statement was abandoned; `isReachable`: whether the server seems to be reachable. */
export class GivenUp extends Error {
  readonly isReachable: boolean

  constructor(isReachable: boolean) {
    super(isReachable ? 'no answer in time' : 'no connection in time')
    this.isReachable = isReachable
  }
}

/**
 * The result of `work`. After `deadlineMs` without one it calls `abandon`, which ends the work and returns whether the
 * server seems to be reachable, and rejects with a GivenUp; undefined: waits without limit.
 */
export async function abandonAfter<T>(
  work: Promise<T>,
  deadlineMs: number | undefined,
  abandon: () => boolean,
): Promise<T> {
  if (deadlineMs === undefined) return await work
  const { promise: late, reject } = Promise.withResolvers<never>()
  let last: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    // A response that arrived while this process was paused is read before the immediate.
    last = setImmediate(() => reject(new GivenUp(abandon())))
  }, deadlineMs)
  try {
    // The race handles both promises, so the later one is never an unhandled rejection.
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    clearImmediate(last)
  }
}

/** Sends a cancel request to the server, over a separate connection, for the statement of one of its processes. */
function cancel(server: NetConnectOpts, processId: number, secretKey: number): void {
  const request = Buffer.alloc(16)
  for (const [i, word] of [16, cancelRequestCode, processId, secretKey].entries()) {
    request.writeInt32BE(word, 4 * i)
  }
  const socket = connect(server, () => socket.end(request))
  socket.unref()
  socket.on('error', () => {})
  socket.resume()
  socket.setTimeout(cancelDeadlineMs, () => socket.destroy())
}
