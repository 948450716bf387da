/** The usage ledger: feeds it from the journal, archives the journal, adds refusals, maintains partitions. */

import { dirname } from 'node:path'
import type { Logger } from 'pino'
import type { Denial } from '../../decide/decision.ts'
import { type ListedFile, openJournalFolder } from '../../journal/journal-folder.ts'
import { causeMessage } from '../../runtime/error-message.ts'
import { repeat } from '../../runtime/loop.ts'
import { createOutage } from '../../runtime/outage.ts'
import { noteIfLate } from '../../runtime/with-timeout.ts'
import type { ArchiveHeads, UsageLedger } from '../store.ts'
import { createLedgerFeed, type LedgerFeedOptions } from './feed.ts'
import { createJournalArchiver } from './journal-archiver.ts'
import { sourceNames } from './journal-files.ts'
import { ensureJournalName } from './journal-name.ts'
import { createRefusalSums } from './refusals.ts'

interface LedgerOptions extends Pick<LedgerFeedOptions, 'clock' | 'unusableUsage'> {
  /** USAGE_JOURNAL and DATA_DIR. */
  readonly path: string
  readonly dataDir: string
  readonly ledger: UsageLedger
  readonly heads: ArchiveHeads
  /** Undefined if nothing is archived. */
  readonly archiveFolder: string | undefined
  /** When a disk for archives hangs, in milliseconds; a minute by default, since many large files take a while. */
  readonly archiveHangingMs?: number
  /** Creates partitions and drops old ones; returns their names. */
  readonly upkeep: (now: number) => Promise<Readonly<Record<'made' | 'dropped', readonly string[]>>>
  readonly log: Logger
}

export type Ledger = ReturnType<typeof createLedger>

const feedEveryMs = 1_000
const refusalsEveryMs = 10_000
const archiveEveryMs = 5_000
const maintainEveryMs = 3_600_000

/** Creates the ledger; `start` starts it. */
export function createLedger(options: LedgerOptions) {
  const { ledger, heads, path, clock, unusableUsage, archiveFolder: archives, log } = options
  const { archiveHangingMs = 60_000 } = options
  let gaps = 0
  /** Opened at the start, when the folder exists: others create it and choose its mode. */
  let reader: ReturnType<typeof openReader> | undefined
  const refusals = createRefusalSums(ledger)
  const feeding = outageOf(['ledger_failing', 'ledger_restored'], 'write', 'the usage ledger')
  const archiving = outageOf(
    ['archive_failing', 'archive_restored'],
    'archive',
    'the usage journal',
  )
  const adding = outageOf(
    ['ledger_refusals_failing', 'ledger_refusals_restored'],
    'add',
    'counts of refusals to the usage ledger',
  )
  const maintaining = outageOf(
    ['ledger_partitions_failing', 'ledger_partitions_restored'],
    'maintain',
    'the partitions of the usage ledger',
  )
  const ending = new AbortController()
  const { signal } = ending
  let loops: Promise<unknown> = Promise.resolve()

  function openReader() {
    const journal = ensureJournalName(path, options.dataDir)
    const files = { folder: openJournalFolder(dirname(path)), names: sourceNames(path) }
    const feed = createLedgerFeed({
      ...files,
      journal,
      ledger,
      clock,
      unusableUsage,
      monotonic: () => performance.now(),
      onGap({ from, to }) {
        gaps += 1
        log.error(
          { code: 'ledger_gap', journal: path, from: new Date(from), to: new Date(to) },
          'the usage ledger has a gap: lines of the usage journal were lost before they were read',
        )
      },
    })
    const { isDone } = feed
    const archive =
      archives && createJournalArchiver({ ...files, journal, archives, heads, isDone })
    return { feed, archive: archive || undefined }
  }

  /** A lasting error is logged once. */
  function outageOf([failing, restored]: readonly [string, string], verb: string, what: string) {
    const doing = `${verb.replace(/e$/, '')}ing`
    return createOutage<unknown>((cause) => {
      if (cause === undefined) log.info({ code: restored }, `resumed ${doing} ${what}`)
      else log.error({ code: failing, cause: causeMessage(cause) }, `cannot ${verb} ${what}`)
    })
  }

  function loop(outage: ReturnType<typeof outageOf>, restMs: number, step: () => Promise<void>) {
    return repeat({
      restMs,
      signal,
      async step() {
        await step()
        outage.note(undefined)
      },
      onFault: outage.note,
    })
  }

  async function maintain(): Promise<void> {
    const { made, dropped } = await options.upkeep(clock())
    if (made.length + dropped.length > 0)
      log.info(
        { code: 'ledger_partitions_changed', made, dropped },
        'usage ledger partitions were created or dropped',
      )
  }

  return {
    /**
     * Runs until it is stopped, and feeds the ledger while `isWriter` says that this process is its gateway's writer.
     * The journal's folder must exist. Throws if the journal's name cannot be written.
     */
    start(isWriter: () => boolean) {
      reader = openReader()
      const { feed, archive } = reader
      loops = Promise.all([
        loop(feeding, feedEveryMs, async () => (isWriter() ? await feed.step() : feed.reset())),
        archive &&
          loop(archiving, archiveEveryMs, async () => {
            if (isWriter()) await noteIfLate(archiveHangingMs, archive.step(), archiving.note)
          }),
        loop(adding, refusalsEveryMs, refusals.flush),
        loop(maintaining, maintainEveryMs, maintain),
      ])
    },
    /** Feeds the rest. Stop other readers of the journal before. */
    async stop() {
      ending.abort()
      await loops
      await refusals.flush().catch(() => {})
      await reader?.feed.step(true).catch(() => {})
      await reader?.archive?.step(true).catch(() => {})
      reader?.feed.reset()
    },
    /** Whether the whole file is in the ledger and archived, if there is an archive. */
    isDone(file: ListedFile) {
      if (reader === undefined) return false
      const { feed, archive } = reader
      return feed.isDone(file) && (archive?.isDone(file) ?? true)
    },
    stats: {
      /** Whether the last attempt to feed the ledger failed. */
      get failing() {
        return feeding.isOpen
      },
      /** Number of gaps that this process has found. */
      get gaps() {
        return gaps
      },
      /** Whether the last attempt to archive failed, or undefined if archiving is off. */
      get archiveFailing() {
        return archives === undefined ? undefined : archiving.isOpen
      },
    },
    /** Counts a refusal, if a spent limit caused it. */
    onRefused({ grant }: Denial, now: number) {
      if (grant !== undefined) refusals.note(grant, now)
    },
  }
}
