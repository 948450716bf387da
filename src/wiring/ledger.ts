/** The usage ledger, as the settings say. */

import { timedStop } from '../runtime/stops.ts'
import { createLedger } from '../usage/ledger/ledger.ts'
import { createArchiveHeads, createUsageLedger } from '../usage/ledger/postgres/ledger.ts'
import { maintainPartitions } from '../usage/ledger/postgres/partitions.ts'
import { createUsageReader } from '../usage/ledger/postgres/reader.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'

export type OpenLedger = ReturnType<typeof openLedger>

/** Returns a ledger that is not started, or undefined without a journal. */
export function openLedger({ config, log, clock, stops }: Context, { pool }: Database) {
  const { usageJournal: path, usageArchiveDir: archiveFolder, dataDir, unusableUsage } = config
  if (path === undefined) return undefined
  const ledger = createLedger({
    path,
    dataDir,
    archiveFolder,
    unusableUsage,
    clock,
    log,
    ledger: createUsageLedger(pool),
    heads: createArchiveHeads(pool),
    upkeep: (now) => maintainPartitions(pool, now, config.usageRetentionMs),
  })
  // The journal's own stop, which comes before, waits for what Envoy still writes.
  stops.push(timedStop('the usage ledger', ledger.stop))
  return { ...ledger, reader: createUsageReader(pool) }
}
