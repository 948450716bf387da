import { statementDeadlineMs } from './postgres.ts'
import type { Sql } from './sql.ts'

/** How long a statement waits for a lock, in milliseconds: less than a request's deadline, so that the caller learns the cause. */
export const lockDeadlineMs = 1_000

/**
 * The numbers of the advisory locks: of all processes that share a database, one holds a lock and does the work. Each
 * lock ends with its transaction.
 */
export const advisoryLocks = {
  migrations: 7_005_101_901,
  partitions: 7_005_101_902,
  /** Taken by a trigger of migration 0003. */
  revocations: 7_005_101_903,
  keyCleanup: 7_005_101_904,
  /** Taken to count the increases in force and add one. */
  increases: 7_005_101_905,
  /** With the hash of the user's name as a second number: taken to count the keys of a user and add one. */
  userKeys: 701_902,
} as const

/**
 * Waits for a lock in a transaction, at the end of which it is released; `of` has a lock of its own. A process that stops
 * in between would keep all others waiting, so the server ends a transaction that does nothing.
 */
export async function acquireLock(sql: Sql, lock: number, of?: string): Promise<void> {
  await sql`
    select set_config('lock_timeout', ${`${lockDeadlineMs}ms`}, true),
      set_config('idle_in_transaction_session_timeout', ${`${statementDeadlineMs}ms`}, true)`
  await (of === undefined
    ? sql`select pg_advisory_xact_lock(${lock})`
    : sql`select pg_advisory_xact_lock(${lock}, hashtext(${of}))`)
}
