/** Logs the events of a gateway's sums: outages and losses of Redis, problems of the journal. */

import type { Logger } from 'pino'
import type { JournalProblem } from '../../journal/health.ts'
import { causeMessage, connectionClosed, errorMessage } from '../../runtime/error-message.ts'
import type { SumsOptions } from './journal-sums.ts'

type Events = 'onUnavailable' | 'onLost' | 'onProblem' | 'onRestored' | 'onRenamed'

/** `journal`: USAGE_JOURNAL. `redisProblem`: why there is no connection, if known. */
export function createSumsLog(
  log: Logger,
  journal: string,
  redisProblem: () => string | undefined,
): Required<Pick<SumsOptions, Events>> {
  return {
    onUnavailable(isUnavailable, error) {
      // Only the message: other fields of the error may contain a password.
      const cause = causeMessage(error)
      if (isUnavailable)
        log.error(
          {
            code: 'redis_unavailable',
            // A response of Redis says more than an earlier problem of the connection.
            cause: cause === connectionClosed ? (redisProblem() ?? cause) : cause,
          },
          'cannot reach Redis: each process counts only the requests of its own gateway',
        )
      else log.info({ code: 'redis_available' }, 'Redis available again')
    },
    onLost: () =>
      log.error({ code: 'redis_data_lost' }, 'Redis lost counters: each gateway restores its sums'),
    onProblem(problem, isThere, cause) {
      if (isThere) {
        log.error(
          { code: 'journal_failing', journal, problem, cause: errorMessage(cause) },
          problems[problem],
        )
      } else
        log.info({ code: 'journal_restored', journal, problem }, 'usage journal problem resolved')
    },
    onRestored: () =>
      log.warn(
        { code: 'journal_folder_restored', journal },
        'the folder of the usage journal was removed and has been recreated from the copies in DATA_DIR, without the lines of the last second: find out what removes it',
      ),
    onRenamed: (from, to) =>
      log.warn(
        { code: 'gateway_renamed', from, to },
        "this gateway's volume is a copy of another gateway's: continuing under a new gateway name",
      ),
  }
}

const problems: Record<JournalProblem, string> = {
  unreadable: 'cannot read the usage journal: this process is not ready',
  unwritable: 'cannot write to the folder of the usage journal',
  silent:
    'cannot count allowed requests: the gateway writes no lines; check that Envoy writes to this folder',
  envoy:
    'Envoy cannot write its access log in the usage journal; check that the file system has room',
  script:
    'the gateway’s script cannot write to the usage journal: on a full disk it frees the space held back for lines; otherwise Envoy’s access log writes them',
  flush: 'Envoy flushes its access log too rarely: start it with --file-flush-interval-msec 20',
  rotation: 'cannot rotate the files of the usage journal, which grow',
  kept: 'cannot save the checkpoint and the copy of the usage journal in DATA_DIR',
  mismatch: 'the files of the usage journal have wrong owners or modes',
}
