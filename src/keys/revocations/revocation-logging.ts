/** Log lines about revocations and their dependencies. */

import type { Logger } from 'pino'
import { LockedRowsError } from './revocation-keeper.ts'

/** Maximum number of ids in one log line. */
const idsShown = 20

/** Callbacks of the follower. */
export function followerLogging(log: Logger) {
  return {
    onUnavailable: (cause: unknown) =>
      cause === undefined
        ? log.info({ code: 'database_available' }, 'Postgres available again')
        : log.error(
            { code: 'database_unavailable', cause: String(cause) },
            'cannot reach Postgres: cached keys stay valid, other keys get 503',
          ),
    onTriggersOff: (names: readonly string[]) =>
      names.length === 0
        ? log.info(
            { code: 'triggers_on' },
            'resumed logging revocations: the triggers on api_keys are enabled',
          )
        : log.error(
            { code: 'triggers_off', triggers: names },
            'cannot log revocations: triggers on api_keys are off or missing; until they are enabled, cached keys stay valid and other keys get 503, as when the database is unavailable',
          ),
    onGap: () =>
      log.warn(
        { code: 'revocations_gap' },
        'revocations may be missing in the database, as after a restore: reading all cached keys again',
      ),
    onSilent: (names: readonly string[]) =>
      names.length === 0
        ? log.info(
            { code: 'replicas_reporting' },
            'resumed confirming revocations: all processes report again',
          )
        : log.warn(
            { code: 'replicas_silent', silent: names },
            'cannot confirm revocations: processes have not reported for 5 s; they may hang, be cut off from the database, or have been killed',
          ),
  }
}

/** Callbacks of the keeper. */
export function keeperLogging(log: Logger, onFault: (error: unknown) => void) {
  return {
    onFault: (error: unknown) =>
      error instanceof LockedRowsError
        ? log.warn(
            { code: 'revocations_locked', keys: error.keys },
            'cannot revoke keys again yet, because a transaction has locked their rows: they stay refused, and the next attempt follows',
          )
        : onFault(error),
    onReplayed: (ids: readonly string[]) =>
      log.warn(
        { code: 'revocations_replayed', keys: ids.length, first: ids.slice(0, idsShown) },
        'the database is older than its revocations, because it was restored: keys that were revoked after the backup are revoked again; keys created after it are lost',
      ),
    onBroken: (file: string, lines: number) =>
      log.warn(
        { code: 'revocation_log_damaged', file, lines },
        'skipped unreadable lines of a revocation log',
      ),
    onWriting: (error: unknown) =>
      error === undefined
        ? log.info({ code: 'revocation_log_restored' }, 'resumed writing the revocation log')
        : log.error(
            { code: 'revocation_log_failing', cause: String(error) },
            'cannot write to REVOCATION_LOG_DIR: revocations take effect but stay pending',
          ),
  }
}
