/** The usage ledger: its feed from the journal, its refusals, its partitions. */

import type { Denial } from '../core/decision/decide.ts'
import type { ListedFile } from '../ratelimit/journal/folder.ts'
import { nameJournal } from '../ratelimit/journal/name.ts'
import { createArchive } from '../ratelimit/ledger/archive.ts'
import { createLedgerFeed } from '../ratelimit/ledger/feed.ts'
import { createRefusalSums } from '../ratelimit/ledger/refusals.ts'
import { errorMessage } from '../runtime/error-message.ts'
import { repeat } from '../runtime/loop.ts'
import { part } from '../runtime/stops.ts'
import { createArchiveHeads } from '../store/usage/archives.ts'
import { createUsageLedger } from '../store/usage/ledger.ts'
import { tendPartitions } from '../store/usage/partitions.ts'
import { createUsageReader } from '../store/usage/reader.ts'
import type { UsageReader } from '../store/usage.ts'
import type { Context } from './context.ts'
import type { Database } from './database.ts'

const feedEveryMs = 1_000
const refusalsEveryMs = 10_000
const archiveEveryMs = 5_000
const tendEveryMs = 3_600_000

export interface Ledger {
  /** Feeds it until the service stops, while `isReader` says that this process reads the journal. */
  start(isReader: () => boolean): void
  /** Whether it has everything in this file of the journal, and the archive too. */
  readonly isDone: (file: ListedFile) => boolean
  readonly reader: UsageReader
  /** Whether it cannot be fed now, and the gaps that this process has found. */
  readonly stats: { readonly failing: boolean; readonly gaps: number }
  /** Counts a refusal, if it is one for a used-up limit. */
  readonly onRefused: (denial: Denial, now: number) => void
}

/** Not started yet; undefined: there is no journal, and so no ledger. */
export function openLedger(context: Context, { pool }: Database): Ledger | undefined {
  const { config, log, clock, stops } = context
  const path = config.usageJournal
  if (path === undefined) return undefined
  const ledger = createUsageLedger(pool)
  const stats = { failing: false, gaps: 0 }
  const journal = nameJournal(path)
  const feed = createLedgerFeed({
    ...{ path, journal, ledger, clock, unusableUsage: config.unusableUsage },
    monotonic: () => performance.now(),
    onGap({ from, to }) {
      stats.gaps += 1
      log.error(
        { journal: path, from: new Date(from), to: new Date(to) },
        'a part of the usage journal was lost before it was read',
      )
    },
  })
  const folder = config.usageArchiveDir
  const heads = createArchiveHeads(pool)
  const archive = folder && createArchive({ path, journal, folder, heads, isDone: feed.isDone })
  const refusals = createRefusalSums(ledger)
  const ending = new AbortController()
  const { signal } = ending
  let loops: Promise<unknown> = Promise.resolve()

  async function tend(): Promise<void> {
    const { made, dropped } = await tendPartitions(pool, clock(), config.usageRetentionMs)
    if (made.length + dropped.length > 0) log.info({ made, dropped }, 'partitions of the ledger')
  }

  /** Repeats it; a persistent error is logged once. */
  function keep(what: string, restMs: number, step: () => Promise<void>): Promise<void> {
    let failing = false
    return repeat({
      restMs,
      signal,
      async step() {
        await step()
        if (failing) log.info(`${what} again`)
        failing = false
      },
      onFault(error) {
        if (!failing) log.error({ cause: errorMessage(error) }, `${what} no longer`)
        failing = true
      },
    })
  }

  // The journal's own stop, which comes before, waits for what Envoy still writes.
  stops.push(
    part('the usage ledger', async () => {
      ending.abort()
      await loops
      await refusals.flush().catch(() => {})
      await feed.step(true).catch(() => {})
      if (archive) await archive.step(true).catch(() => {})
      await feed.reset()
    }),
  )
  return {
    start(isReader) {
      loops = Promise.all([
        keep('the usage ledger is fed', feedEveryMs, async () => {
          const error: unknown = await (isReader() ? feed.step() : feed.reset()).catch(
            (cause: unknown) => cause,
          )
          stats.failing = error !== undefined
          if (error !== undefined) throw error
        }),
        archive &&
          keep('the usage journal is archived', archiveEveryMs, async () => {
            if (isReader()) await archive.step()
          }),
        keep('refusals are added to the usage ledger', refusalsEveryMs, refusals.flush),
        keep('the partitions of the usage ledger are kept', tendEveryMs, tend),
      ])
    },
    isDone: (file) => feed.isDone(file) && (!archive || archive.isDone(file)),
    reader: createUsageReader(pool),
    stats,
    onRefused({ grant }, now) {
      if (grant !== undefined) refusals.note(grant, now)
    },
  }
}
