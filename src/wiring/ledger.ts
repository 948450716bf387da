/** The usage ledger, as the settings say. */

import { createLedger } from '../ratelimit/ledger/ledger.ts'
import { part } from '../runtime/stops.ts'
import { createArchiveHeads } from '../store/usage/archives.ts'
import { createUsageLedger } from '../store/usage/ledger.ts'
import { tendPartitions } from '../store/usage/partitions.ts'
import { createUsageReader } from '../store/usage/reader.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'

export type Ledger = ReturnType<typeof openLedger>

/** Not started yet; undefined: there is no journal, and so no ledger. */
export function openLedger({ config, log, clock, stops }: Context, { pool }: Database) {
  const { usageJournal: path, usageArchiveDir: archiveFolder, dataDir, unusableUsage } = config
  if (path === undefined) return undefined
  const ledger = createLedger({
    ...{ path, dataDir, archiveFolder, unusableUsage, clock, log },
    ledger: createUsageLedger(pool),
    heads: createArchiveHeads(pool),
    tend: (now) => tendPartitions(pool, now, config.usageRetentionMs),
  })
  // The journal's own stop, which comes before, waits for what Envoy still writes.
  stops.push(part('the usage ledger', ledger.stop))
  return { ...ledger, reader: createUsageReader(pool) }
}
