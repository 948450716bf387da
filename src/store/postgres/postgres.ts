/** The connection pool, and what an outage looks like through it. */

import postgres from 'postgres'
import { ServiceError } from '../../core/errors.ts'

export interface PoolOptions {
  readonly url: string
  /** Connections at most. */
  readonly connections: number
}

/** A query that takes longer than this finds its caller gone: Envoy gives a Check two seconds. */
const requestDeadlineMs = 1_500
/** What one statement may take at most, where nobody but its own caller waits for it. */
export const statementDeadlineMs = 5_000
const reconnectSeconds = 0.25
/** Well below the second that a probe is given. */
const pingDeadlineMs = 500

/**
 * A pool that connects when first asked and reconnects by itself. While serving, every change is
 * one statement: with `begin` or `reserve` a connection is pinned, and when its server goes away
 * the client's next write to it ends this process (porsager/postgres, issues 1154 and 1208).
 */
export function openPool({ url, connections }: PoolOptions): postgres.Sql {
  return postgres(url, {
    max: connections,
    connect_timeout: 2,
    backoff: () => reconnectSeconds,
    idle_timeout: 300,
    onnotice: () => {},
    connection: { application_name: 'tollgate', statement_timeout: statementDeadlineMs },
  })
}

/**
 * The query's rows, or `store_unavailable` when the database can't be reached, is starting or
 * stopping, or does not answer in time. Other errors are faults of ours and pass through.
 */
export async function within<T>(query: Promise<T>, deadlineMs = requestDeadlineMs): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new ServiceError('store_unavailable', { cause: 'no answer in time' })),
      deadlineMs,
    )
  })
  try {
    return await Promise.race([query, deadline])
  } catch (error) {
    throw isOutage(error) ? new ServiceError('store_unavailable', { cause: error }) : error
  } finally {
    clearTimeout(timer)
  }
}

/**
 * PostgreSQL error classes (appendix A of its manual): 08 connection, 25006 read-only after a
 * failover, 3D000 and 42P01 database or table gone (being restored), 40 rolled back (a deadlock with
 * somebody's transaction), 53 resources, 57 operator intervention, 58 system error. Else the socket's
 * own codes.
 */
function isOutage(error: unknown): boolean {
  if (error instanceof ServiceError || !(error instanceof Error)) return false
  const code = 'code' in error ? String(error.code) : ''
  if (error instanceof postgres.PostgresError)
    return /^(08|25006|3D000|40|42P01|53|57|58)/.test(code)
  return /^(CONNECT|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ENOTFOUND|ENOENT|EAI_)/.test(code)
}

/** Whether the database answers right now. */
export async function ping(sql: postgres.Sql): Promise<boolean> {
  try {
    await within(sql`select 1`, pingDeadlineMs)
    return true
  } catch {
    return false
  }
}
