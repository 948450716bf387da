/** The decision table of this process, as the settings say. */

import { countWorkers } from '../gateway/envoy-workers.ts'
import { fileModeOf } from '../journal/prepare-folder.ts'
import { createProcessTable, type ProcessTable } from '../table/process-table.ts'
import type { Context } from './context.ts'
import { unreportedFaults } from './unreported-faults.ts'

export type Table = ProcessTable

export function createTable({ config, onFault }: Context): ProcessTable {
  const { usageJournal } = config
  return createProcessTable({
    isOn: config.decisionTable === 'on',
    usageJournal,
    mode: fileModeOf(config.socketMode),
    isShared: config.redisUrl !== undefined,
    onCounterLoss: config.onCounterLoss,
    countWorkers: (isStopped) => countWorkers(config.envoyAdminAddress, isStopped),
    onFault: usageJournal === undefined ? onFault : unreportedFaults(usageJournal, onFault),
  })
}
