/** The decision table of this process, as the settings say. */

import { countWorkers } from '../gateway/admin-page.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { createOutage } from '../runtime/outage.ts'
import { createProcessTable, type ProcessTable } from '../table/process-table.ts'
import type { Context } from './context.ts'
import { unreportedFaults } from './unreported-faults.ts'

export function createTable({ config, log, onFault }: Context): ProcessTable {
  const { usageJournal } = config
  const outage = createOutage<unknown>((cause) => {
    if (cause === undefined) log.info({ code: 'table_restored' }, 'decision table created')
    else
      log.warn(
        { code: 'table_failing', cause: errorMessage(cause) },
        'cannot create the decision table: Envoy asks Check about every request',
      )
  })
  const unreported = (report: (error: unknown) => void) =>
    usageJournal === undefined ? report : unreportedFaults(usageJournal, report)
  const noteFailure = unreported(outage.note)
  return createProcessTable({
    isOn: config.decisionTable === 'on',
    usageJournal,
    mode: fileModeOf(config.socketMode),
    isShared: config.redisUrl !== undefined,
    onCounterLoss: config.onCounterLoss,
    countWorkers: (isStopped) => countWorkers(config.envoyAdminAddress, isStopped),
    onMade: (error) => (error === undefined ? outage.note(undefined) : noteFailure(error)),
    onFault: unreported(onFault),
  })
}
