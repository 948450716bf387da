/** A start that waits for the database. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { ServiceError } from '../../formats/errors.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { withAbort } from '../../runtime/with-abort.ts'
import { databaseRetryMs } from './connection.ts'
import { migrate } from './migrate.ts'
import { type Pool, tryConnect } from './postgres.ts'

interface Waiting {
  readonly log: Pick<Logger, 'info' | 'warn'>
  /** Ends the wait. */
  readonly signal: AbortSignal
}

/** How long a start waits for it, in milliseconds. */
const waitMs = 30_000
/** Between two log lines about attempts. */
const logEveryMs = 5_000

/**
 * Migrates as soon as the database responds, because services and their database often start together. A refusal by the
 * server, or its certificate, ends the start at once: waiting would not help.
 */
export async function waitForDatabase(pool: Pool, context: Waiting): Promise<void> {
  await untilAvailable(async () => {
    const problem = await tryConnect(pool)
    if (problem?.isFinal) throw new Error(`DATABASE_URL: ${problem.message}`)
    if (problem) throw new ServiceError('store_unavailable', { cause: new Error(problem.message) })
  }, context)
  const applied = await migrate(pool).catch((error: NodeJS.ErrnoException) => {
    // A migration's file cannot be read.
    if (error.path !== undefined) throw error
    throw new Error(`DATABASE_URL: ${errorMessage(error)}`)
  })
  if (applied.length > 0)
    context.log.info({ code: 'database_migrated', migrations: applied }, 'database migrated')
}

/**
 * Repeats `ask`, whose result a start needs, while it rejects with a ServiceError: the database is unavailable or slow,
 * or another transaction holds a lock.
 */
export async function untilAvailable<T>(
  ask: () => Promise<T>,
  { log, signal }: Waiting,
): Promise<T> {
  const startedAt = performance.now()
  let loggedAt = Number.NEGATIVE_INFINITY
  for (;;) {
    const result = await withAbort(ask(), signal).catch((error: unknown) => {
      if (error instanceof ServiceError) return error
      throw error
    })
    if (!(result instanceof ServiceError)) return result
    const cause = result.cause instanceof Error ? result.cause.message : result.message
    const now = performance.now()
    if (now - startedAt > waitMs) {
      throw new Error(`DATABASE_URL: no response within ${waitMs / 1_000} s: ${cause}`)
    }
    if (now - loggedAt >= logEveryMs) {
      loggedAt = now
      log.warn(
        { code: 'database_waiting', setting: 'DATABASE_URL', cause },
        'cannot start yet: waiting for the database',
      )
    }
    await delay(databaseRetryMs, undefined, { signal })
  }
}
