/** What is logged of revocations, and of what they depend on. */

import type { Logger } from 'pino'

/** The most ids in one log line. */
const idsShown = 20

/** Callbacks of the follower. */
export function logFollower(log: Logger) {
  return {
    onUnavailable: (cause: unknown) =>
      cause === undefined
        ? log.info('Postgres is back')
        : log.error({ cause: String(cause) }, 'Postgres is out of reach: cached keys stay valid'),
    onTriggersOff: (names: readonly string[]) =>
      names.length === 0
        ? log.info('the triggers on api_keys are on again: revocations are logged')
        : log.error(
            { triggers: names },
            'triggers on api_keys are off or missing, so no revocation is logged: until they are enabled, cached keys stay valid as in an outage of the database, and all others get 503',
          ),
    onSilent: (names: readonly string[]) =>
      names.length === 0
        ? log.info('no process is silent any more')
        : log.warn(
            { silent: names },
            'processes have not reported for 5 s: they hang, are cut off from the database, or were killed; revocations wait for them',
          ),
  }
}

/** Callbacks of the keeper. */
export function logKeeper(log: Logger) {
  return {
    onReplayed: (ids: readonly string[]) =>
      log.warn(
        { keys: ids.length, first: ids.slice(0, idsShown) },
        'the database is older than its revocations, as after a restore: keys that it had as active again are revoked again; keys made after its backup stay refused',
      ),
    onBroken: (file: string, lines: number) =>
      log.warn({ file, lines }, 'lines of a revocation log cannot be read'),
    onWriting: (error: unknown) =>
      error === undefined
        ? log.info('the revocation log is written again')
        : log.error(
            { cause: String(error) },
            'REVOCATION_LOG_DIR cannot be written: revocations hold, and are pending',
          ),
  }
}
