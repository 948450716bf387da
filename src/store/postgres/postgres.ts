/** The connection pool, and how it classifies outages. */

import pg from 'pg'
import { ServiceError } from '../../formats/errors.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import {
  abandonAfter,
  type ConnectionOptions,
  connectionClass,
  GivenUp,
  type PostgresConnection,
  runStatement,
  sqlOver,
} from './connection.ts'
import { createSql, type Query, type Rows, type Sql } from './sql.ts'

export interface PoolOptions extends Partial<Omit<ConnectionOptions, 'url'>> {
  readonly url: ConnectionOptions['url']
  /** Maximum number of connections. */
  readonly connections: number
}

/** Queries over a pool of connections, each over a free one. */
export interface Pool extends Sql {
  /**
   * Runs `work` in a transaction on one connection: commits when it resolves, rolls back when it
   * rejects. `mode` is appended to `begin`, by default read committed. After `deadlineMs` the transaction is abandoned.
   */
  begin<T>(work: (transaction: Sql) => Promise<T>, mode?: string, deadlineMs?: number): Promise<T>
  /** Waits at most this many milliseconds for queries in progress, and closes every connection. */
  end(graceMs?: number): Promise<void>
}

/** After this time the caller has given up: Envoy's timeout for a Check is two seconds. */
export const requestDeadlineMs = 1_500
/** Maximum duration of a statement that no request waits for. */
export const statementDeadlineMs = 5_000
/** Well below a probe's timeout of one second. */
const pingDeadlineMs = 500
const idleMs = 300_000
const lifetimeSeconds = 3_600

/**
 * A pool that connects on demand and reconnects by itself. Abandoning a statement closes its connection, so that
 * neither the statement nor a hanging server blocks the pool. See docs/decisions/0001-database-driver.md.
 */
export function openPool({ url, connections, ...options }: PoolOptions): Pool {
  const all = new Set<pg.PoolClient>()
  /** Those from before a server refused a write: a new one may lead to the new primary. */
  const outdated = new WeakSet<pg.PoolClient>()
  const pool = new pg.Pool({
    Client: connectionClass({
      url,
      applicationName: 'tollgate',
      statementTimeoutMs: statementDeadlineMs,
      ...options,
    }),
    max: connections,
    idleTimeoutMillis: idleMs,
    maxLifetimeSeconds: lifetimeSeconds,
  })
  /** Whether the last connection attempt succeeded. */
  let isReachable = false
  pool.on('connect', (connection) => {
    isReachable = true
    all.add(connection)
  })
  pool.on('remove', (connection) => all.delete(connection))
  // An idle connection has ended; the pool has dropped it.
  pool.on('error', () => {})
  let ending: Promise<void> | undefined

  async function connect(): Promise<pg.PoolClient> {
    let free = await pool.connect()
    for (; outdated.has(free); free = await pool.connect()) free.release(true)
    return free
  }

  /** Runs `use` on a connection of the pool; a caller that gives up waits for neither. */
  function withConnection<T>(
    use: (connection: PostgresConnection) => Promise<T>,
    deadlineMs?: number,
  ): Promise<T> {
    let used: PostgresConnection | undefined
    let isOver = false
    async function work(): Promise<T> {
      const free = await connect().catch((error: unknown) => {
        isReachable = false
        throw error
      })
      if (isOver) {
        free.release()
        throw new GivenUp(false)
      }
      used = free as pg.PoolClient & PostgresConnection
      try {
        const result = await use(used)
        free.release()
        return result
      } catch (error) {
        if (isOf(error, '25006')) for (const each of all) outdated.add(each)
        // After an error of the server the connection is usable, unless it was FATAL, in any
        // language.
        free.release(!(error instanceof pg.DatabaseError && error.severity === 'ERROR'))
        throw error
      } finally {
        used = undefined
      }
    }
    return abandonAfter(work(), deadlineMs, () => {
      isOver = true
      used?.abandon()
      // A wait for a busy connection counts as slow, too.
      return isReachable
    })
  }

  const sql = createSql((statement, deadlineMs) =>
    withConnection((connection) => runStatement(connection, statement), deadlineMs),
  )
  return Object.assign(sql, {
    begin<T>(work: (transaction: Sql) => Promise<T>, mode?: string, deadlineMs?: number) {
      return withConnection(async (connection) => {
        // With another default of the database, a count after a lock would be one from before it.
        await connection.query(`begin ${mode ?? 'isolation level read committed'}`)
        try {
          const result = await work(sqlOver(connection))
          await connection.query('commit')
          return result
        } catch (error) {
          await connection.query('rollback').catch(() => {})
          throw error
        }
      }, deadlineMs)
    },
    end(graceMs = 2_000) {
      ending ??= abandonAfter(pool.end(), graceMs, () => {
        for (const connection of all) (connection as pg.PoolClient & PostgresConnection).abandon()
        return true
      }).catch(() => {})
      return ending
    },
  })
}

/**
 * The query's rows. Rejects with `store_unavailable` if the database cannot be reached, is starting or stopping; with
 * `store_slow` if it does not respond in time; with `store_locked` if a transaction holds the needed lock too long. The
 * statement is then cancelled. Other errors are bugs and are passed through.
 */
export async function withDeadline<R extends readonly object[]>(
  query: Query<R>,
  deadlineMs = requestDeadlineMs,
): Promise<Rows<R>> {
  return await orRefused(query.run(deadlineMs))
}

/** As `withDeadline`, with the deadline of statements that no request waits for. */
export function withLongDeadline<R extends readonly object[]>(query: Query<R>): Promise<Rows<R>> {
  return withDeadline(query, statementDeadlineMs)
}

/** The result of `work` in a transaction; as `begin` of the pool, but rejects as `withDeadline` does. */
export function inTransaction<T>(
  pool: Pool,
  work: (sql: Sql) => Promise<T>,
  deadlineMs = statementDeadlineMs,
  mode?: string,
): Promise<T> {
  return orRefused(pool.begin(work, mode, deadlineMs))
}

async function orRefused<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    // From a statement in a transaction, which was handled here already.
    if (error instanceof ServiceError) throw error
    // Another transaction has changed a row or a table.
    if (isOf(error, '55P03')) throw new ServiceError('store_locked', { cause: error })
    if (isSlow(error)) throw new ServiceError('store_slow', { cause: error })
    throw isOutage(error) ? new ServiceError('store_unavailable', { cause: error }) : error
  }
}

/** Whether the server's error has this code, also if `withDeadline` has made a refusal of it. */
function isOf(error: unknown, code: string): boolean {
  const cause = error instanceof ServiceError ? error.cause : error
  return cause instanceof pg.DatabaseError && cause.code === code
}

/** Timeout, by our clock or by the server's `statement_timeout`. */
function isSlow(error: unknown): boolean {
  return error instanceof GivenUp ? error.isReachable : isOf(error, '57014')
}

/**
 * PostgreSQL error classes (appendix A of its manual): 08 connection, 25006 read-only after a failover, 28
 * authorization, 3D000, 3F000 and 42P01 database, schema or table missing (during a restore), 40 rolled back (a
 * deadlock with another transaction), 42501 privileges revoked, 53 resources, 54 limits, 57 operator intervention, 58
 * and XX internal errors of the server, F0 its configuration. An error that is not the server's is a connection error.
 */
function isOutage(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) {
    return /^(08|25006|28|3D000|3F000|40|42501|42P01|53|54|57|58|F0|XX)/.test(error.code ?? '')
  }
  return error instanceof Error && !(error instanceof TypeError)
}

/** Whether the database responds now. */
export async function ping(sql: Sql): Promise<boolean> {
  return await sql`select 1`.run(pingDeadlineMs).then(
    () => true,
    () => false,
  )
}

/** Long enough for a slow server, and short enough to report a missing one within two seconds. */
const attemptDeadlineMs = 1_500

/**
 * Why a database does not respond, in the words of driver and server, or undefined if it does. `isFinal`: waiting will
 * not help, because the server or its certificate does not match the URL.
 */
export async function tryConnect(sql: Sql, deadlineMs = attemptDeadlineMs) {
  try {
    await sql`select 1`.run(deadlineMs)
    return undefined
  } catch (error) {
    const message = errorMessage(error)
    if (!unknownParameter.test(message)) return { message, isFinal: !isWorthWaiting(error) }
    const mend = 'add it to ignore_startup_parameters of PgBouncer (docs/run.md)'
    return { message: `${message}: ${mend}`, isFinal: true }
  }
}

/** PgBouncer's refusal of our `statement_timeout`, with the code that its outages have, too. */
const unknownParameter = /unsupported startup parameter/

/** Nothing listens yet, or the server is starting, stopping or full. */
function isWorthWaiting(error: unknown): boolean {
  if (error instanceof GivenUp) return true
  if (error instanceof pg.DatabaseError) return /^(08|53|57|58)/.test(error.code ?? '')
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (error instanceof AggregateError) return error.errors.every(isWorthWaiting)
  // A missing certificate file has this code too.
  if (code === 'ENOENT') return syscall === 'connect'
  return code === undefined
    ? /timeout|terminated/i.test(message)
    : /^(ECONN|EHOST|ENET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_)/.test(code)
}
