/** Log lines about revocations and what they depend on. */

import type { Logger } from 'pino'

/** The most ids in one log line. */
const idsShown = 20

/** Callbacks of the follower. */
export function logFollower(log: Logger) {
  return {
    onUnavailable: (cause: unknown) =>
      cause === undefined
        ? log.info({ code: 'database_available' }, 'Postgres is back')
        : log.error(
            { code: 'database_unavailable', cause: String(cause) },
            'cannot reach Postgres: cached keys stay valid',
          ),
    onTriggersOff: (names: readonly string[]) =>
      names.length === 0
        ? log.info(
            { code: 'triggers_on' },
            'the triggers on api_keys are on again: revocations are logged',
          )
        : log.error(
            { code: 'triggers_off', triggers: names },
            'cannot log revocations: triggers on api_keys are off or missing; until they are enabled, the database counts as unavailable: cached keys stay valid, others get 503',
          ),
    onSilent: (names: readonly string[]) =>
      names.length === 0
        ? log.info({ code: 'replicas_reporting' }, 'no process is silent any more')
        : log.warn(
            { code: 'replicas_silent', silent: names },
            'cannot confirm revocations: processes have not reported for 5 s; they hang, cannot reach the database, or were killed',
          ),
  }
}

/** Callbacks of the keeper. */
export function logKeeper(log: Logger) {
  return {
    onReplayed: (ids: readonly string[]) =>
      log.warn(
        { code: 'revocations_replayed', keys: ids.length, first: ids.slice(0, idsShown) },
        'the database is older than its revocations, as after a restore: the keys that it lists as active again are revoked again; keys created after the backup are lost',
      ),
    onBroken: (file: string, lines: number) =>
      log.warn(
        { code: 'revocation_log_damaged', file, lines },
        'cannot read lines of a revocation log: they are skipped',
      ),
    onWriting: (error: unknown) =>
      error === undefined
        ? log.info({ code: 'revocation_log_restored' }, 'can write the revocation log again')
        : log.error(
            { code: 'revocation_log_failing', cause: String(error) },
            'cannot write to REVOCATION_LOG_DIR: revocations take effect but stay pending',
          ),
  }
}
