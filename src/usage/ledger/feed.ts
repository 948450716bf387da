/**
 * Feeds the usage ledger from the lines of a journal. The position is in the database and moves in one statement with
 * the sums, so each line is added exactly once, however often this process, another reader or the database fails. Lines
 * that were lost before they were read are recorded as a gap.
 */

import type { JournalFolder, ListedFile } from '../../journal/journal-folder.ts'
import { inSlices } from '../../runtime/slices.ts'
import type { UsageLedger } from '../store.ts'
import {
  createLedgerReading,
  type LedgerReading,
  type LedgerReadingOptions,
} from './ledger-reading.ts'

export interface LedgerFeedOptions extends LedgerReadingOptions {
  /** The name of the journal, equal for every process that sees the folder. */
  readonly journal: string
  readonly ledger: Pick<UsageLedger, 'open' | 'feed'>
  readonly folder: LedgerReadingOptions['folder'] & Pick<JournalFolder, 'readText' | 'replaceText'>
}

/** How often the database records that the journal is still read. */
const seenEveryMs = 60_000

/** Calls of `step` and `reset` must not overlap. */
export function createLedgerFeed(options: LedgerFeedOptions) {
  const { journal, ledger, monotonic, folder } = options
  /** Beside the journal: `removed`. */
  const removedFile = `${options.names.script}.fed`
  /** The last revision that added lines of a file that is gone: a ledger before it, from a backup, cannot read them again. */
  let removed = 0
  /** The revision that added the last lines of each file, by inode. */
  const fedWith = new Map<string, number>()
  /** The lines read since the last successful step, or undefined if the position must be read from the database. */
  let reading: LedgerReading | undefined
  let revision = 0
  /** Offsets stored in the database, by inode. */
  let stored: ReadonlyMap<string, number> = new Map()
  let fedAt = Number.NEGATIVE_INFINITY

  async function open(): Promise<LedgerReading> {
    // Read before the database, because it is written after it.
    removed = Math.max(removed, Number(folder.readText(removedFile)) || 0)
    const found = await ledger.open(journal)
    revision = found.revision
    const isRestored = removed > revision
    removed = Math.min(removed, revision)
    return createLedgerReading(options, found.places, isRestored)
  }

  /** Forgets everything since the last successful step. */
  function reset(): void {
    reading?.close()
    reading = undefined
  }

  async function feed(from: LedgerReading, closes: boolean): Promise<void> {
    const offsets = from.offsets()
    const isOurs = await ledger.feed({ journal, revision, closes, ...from.drain() })
    if (!isOurs) throw new OtherReader()
    revision += 1
    fedAt = monotonic()
    noteRemoved(offsets)
    stored = offsets
  }

  function noteRemoved(offsets: ReadonlyMap<string, number>): void {
    for (const [inode, offset] of offsets) {
      if (stored.get(inode) !== offset) fedWith.set(inode, revision)
    }
    for (const [inode, lastRevision] of fedWith) {
      if (offsets.has(inode)) continue
      removed = Math.max(removed, lastRevision)
      fedWith.delete(inode)
    }
    try {
      if (Number(folder.readText(removedFile)) !== removed)
        folder.replaceText(removedFile, `${removed}`)
    } catch {
      // The folder is full or gone, which the journal reports.
    }
  }

  async function run(closes: boolean): Promise<void> {
    reading ??= await open()
    const from = reading
    await inSlices(from.readAll(() => feed(from, false)))
    from.findLost()
    if (from.isChanged || closes || monotonic() - fedAt >= seenEveryMs) await feed(from, closes)
  }

  return {
    /**
     * Adds the lines written since the last step. `closes`: this is the last step of this process. Rejects if the
     * ledger is unavailable; the next step begins at the ledger's position.
     */
    async step(closes = false): Promise<void> {
      try {
        await run(closes)
      } catch (error) {
        reset()
        // The other reader has added these lines; the next step continues after them.
        if (!(error instanceof OtherReader)) throw error
      }
    },
    /** Whether the whole file is in the ledger. */
    isDone: ({ inode, size }: Pick<ListedFile, 'inode' | 'size'>): boolean =>
      (stored.get(inode) ?? 0) >= size,
    /** Closes its files; the next step reads the position again. */
    reset,
  }
}

/** Another reader has moved the position. */
class OtherReader extends Error {}
