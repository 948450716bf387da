/** The connection pool, and what an outage looks like through it. */

import pg from 'pg'
import { ServiceError } from '../../core/errors.ts'
import {
  ask,
  type Connection,
  type ConnectionOptions,
  connectionClass,
  GivenUp,
  orGiveUp,
  sqlOver,
} from './connection.ts'
import { createSql, type Query, type Rows, type Sql } from './sql.ts'

export interface PoolOptions extends Partial<Omit<ConnectionOptions, 'url'>> {
  readonly url: ConnectionOptions['url']
  /** Connections at most. */
  readonly connections: number
}

/** Queries over a pool of connections, each over whichever is free. */
export interface Pool extends Sql {
  /**
   * Runs `work` in a transaction on one connection: committed when it settles, rolled back when it
   * rejects. `mode` is what may follow `begin`.
   */
  begin<T>(work: (transaction: Sql) => Promise<T>, mode?: string): Promise<T>
  /** Lets what is under way end, for at most so many milliseconds, and closes every connection. */
  end(graceMs?: number): Promise<void>
}

/** A query that takes longer than this finds its caller gone: Envoy gives a Check two seconds. */
const requestDeadlineMs = 1_500
/** What one statement may take at most, where nobody but its own caller waits for it. */
export const statementDeadlineMs = 5_000
/** Well below the second that a probe is given. */
const pingDeadlineMs = 500
const idleMs = 300_000
const lifetimeSeconds = 3_600

/**
 * A pool that connects when first asked and reconnects by itself. A statement that is given up
 * takes its connection along, so that neither it nor a server that hangs keeps the pool busy.
 * Why so: docs/decisions/0001-database-driver.md.
 */
export function openPool({ url, connections, ...options }: PoolOptions): Pool {
  const all = new Set<pg.PoolClient>()
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
  /** Whether the last attempt to connect has succeeded. */
  let isReachable = false
  pool.on('connect', (connection) => {
    isReachable = true
    all.add(connection)
  })
  pool.on('remove', (connection) => all.delete(connection))
  // A connection that ends while nobody uses it; the pool has dropped it.
  pool.on('error', () => {})
  let ending: Promise<void> | undefined

  /** Runs `use` on a connection of the pool; who gives up waits for neither. */
  function withConnection<T>(
    use: (connection: Connection) => Promise<T>,
    deadlineMs?: number,
  ): Promise<T> {
    let used: Connection | undefined
    let isOver = false
    async function work(): Promise<T> {
      const free = await pool.connect().catch((error: unknown) => {
        isReachable = false
        throw error
      })
      if (isOver) {
        free.release()
        throw new GivenUp(false)
      }
      used = free as pg.PoolClient & Connection
      try {
        const result = await use(used)
        free.release()
        return result
      } catch (error) {
        // What the server has refused leaves the connection sound; FATAL, in any language, does not.
        free.release(!(error instanceof pg.DatabaseError && error.severity === 'ERROR'))
        throw error
      } finally {
        used = undefined
      }
    }
    return orGiveUp(work(), deadlineMs, () => {
      isOver = true
      used?.abandon()
      // What waited for a connection while all were busy is slow as well.
      return isReachable
    })
  }

  const sql = createSql((statement, deadlineMs) =>
    withConnection((connection) => ask(connection, statement), deadlineMs),
  )
  return Object.assign(sql, {
    begin<T>(work: (transaction: Sql) => Promise<T>, mode = ''): Promise<T> {
      return withConnection(async (connection) => {
        await connection.query(`begin ${mode}`)
        try {
          const result = await work(sqlOver(connection))
          await connection.query('commit')
          return result
        } catch (error) {
          await connection.query('rollback').catch(() => {})
          throw error
        }
      })
    },
    end(graceMs = 2_000) {
      ending ??= orGiveUp(pool.end(), graceMs, () => {
        for (const connection of all) (connection as pg.PoolClient & Connection).abandon()
        return true
      }).catch(() => {})
      return ending
    },
  })
}

/**
 * The query's rows, or `store_unavailable` when the database cannot be reached, is starting or
 * stopping, `store_slow` when it does not answer in time, `store_locked` when what it needs is locked
 * by a transaction that does not end. The statement is ended then. Other errors are faults of ours
 * and pass through.
 */
export async function within<R extends readonly object[]>(
  query: Query<R>,
  deadlineMs = requestDeadlineMs,
): Promise<Rows<R>> {
  try {
    return await query.run(deadlineMs)
  } catch (error) {
    if (isLocked(error)) throw new ServiceError('store_locked', { cause: error })
    if (isSlow(error)) throw new ServiceError('store_slow', { cause: error })
    throw isOutage(error) ? new ServiceError('store_unavailable', { cause: error }) : error
  }
}

/** Not had in time: a row or a table that somebody's transaction has changed. */
function isLocked(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '55P03'
}

/** Not answered in time: by our clock, or by the server's `statement_timeout`. */
function isSlow(error: unknown): boolean {
  if (error instanceof GivenUp) return error.isReachable
  return error instanceof pg.DatabaseError && error.code === '57014'
}

/**
 * PostgreSQL error classes (appendix A of its manual): 08 connection, 25006 read-only after a
 * failover, 28 not let in, 3D000, 3F000 and 42P01 database, schema or table gone (being restored),
 * 40 rolled back (a deadlock with somebody's transaction), 42501 rights taken away, 53 resources,
 * 54 limits, 57 operator intervention, 58 and XX errors of the server's own, F0 of its configuration.
 * What the server has not said is about the way there.
 */
function isOutage(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) {
    return /^(08|25006|28|3D000|3F000|40|42501|42P01|53|54|57|58|F0|XX)/.test(error.code ?? '')
  }
  return error instanceof Error && !(error instanceof TypeError)
}

/** Whether the database answers right now. */
export async function ping(sql: Sql): Promise<boolean> {
  try {
    await sql`select 1`.run(pingDeadlineMs)
    return true
  } catch {
    return false
  }
}

/** Why a database does not answer. */
export interface ConnectProblem {
  /** In the words of driver and server. */
  readonly message: string
  /** It will not go away by waiting: the server, or its certificate, is not what the URL says. */
  readonly isFinal: boolean
}

/** Long enough for a server that is slow, and short enough to say within two seconds that none is there. */
const attemptDeadlineMs = 1_500

/** undefined: the database answers. */
export async function tryConnect(sql: Sql): Promise<ConnectProblem | undefined> {
  try {
    await sql`select 1`.run(attemptDeadlineMs)
    return undefined
  } catch (error) {
    return { message: describeProblem(error), isFinal: !isWorthWaiting(error) }
  }
}

/** Nobody there yet, or a server that starts, ends or is full. */
function isWorthWaiting(error: unknown): boolean {
  if (error instanceof GivenUp) return true
  if (error instanceof pg.DatabaseError) return /^(08|53|57|58)/.test(error.code ?? '')
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (error instanceof AggregateError) return error.errors.every(isWorthWaiting)
  // A certificate's file that is not there has this code too.
  if (code === 'ENOENT') return syscall === 'connect'
  return code === undefined
    ? /timeout|terminated/i.test(message)
    : /^(ECONN|EHOST|ENET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_)/.test(code)
}

/** A name with several addresses fails at each of them, and says nothing itself. */
function describeProblem(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describeProblem).join(', ')
  return error instanceof Error ? error.message : String(error)
}
