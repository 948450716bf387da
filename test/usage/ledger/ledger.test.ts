import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { createLedger } from '../../../src/usage/ledger/ledger.ts'
import type { UsageLedger } from '../../../src/usage/store.ts'
import { scriptLine } from '../../support/line-of.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('archives that hang count as failing', async (t) => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'usage.jsonl')
  writeFileSync(`${path}.1795264000000`, scriptLine())
  const hang = Promise.withResolvers<never>()
  const ledger = createLedger({
    path,
    dataDir: folder,
    ledger: {
      open: async () => ({ revision: 0, places: [] }),
      feed: async () => true,
    } as unknown as UsageLedger,
    heads: { open: () => hang.promise, move: async () => true },
    archiveFolder: join(folder, 'archives'),
    archiveHangingMs: 100,
    upkeep: async () => ({ made: [], dropped: [] }),
    clock: Date.now,
    unusableUsage: 'allow',
    log: pino({ level: 'silent' }),
  })
  ledger.start(() => true)
  await poll(() => ledger.stats.archiveFailing, 'it fails', 20_000)
  hang.reject(new Error('over'))
  await ledger.stop()
})
