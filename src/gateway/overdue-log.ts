/** Log lines about models that no longer wait, although Envoy was not seen to load their clusters. */

import type { Logger } from 'pino'
import { maxLinesShown } from '../runtime/line-limit.ts'
import type { UnseenReason } from './cluster-waits.ts'

export function createOverdueLog(log: Logger) {
  return (models: readonly string[], reason: UnseenReason): void => {
    const about = { models: models.length, first: models.slice(0, maxLinesShown) }
    if (reason === 'not taken')
      log.warn(
        { code: 'clusters_not_loaded', ...about },
        'cannot serve new models: Envoy has not loaded their clusters',
      )
    else
      log.info(
        { code: 'clusters_unconfirmed', ...about },
        "cannot read Envoy's admin interface: requests to new models may briefly get 503",
      )
  }
}
