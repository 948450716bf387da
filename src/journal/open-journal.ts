/**
 * Opens a gateway's journal and maintains it: the folder, the gateway's name, rotation, copies, and whether lines
 * arrive.
 */

import { realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { withTimeout } from '../runtime/with-timeout.ts'
import { createCopies } from './copies.ts'
import { openDurableFiles } from './durable-files.ts'
import { readEarlierPosition } from './earlier-position.ts'
import type { JournalPosition } from './follower.ts'
import { openGatewayName } from './gateway-name.ts'
import { createJournalHealth, type JournalProblem } from './health.ts'
import { journalFilesOf, keptJournalOf, ledgerNameOf } from './journal-files.ts'
import { type JournalFolder, type ListedFile, openJournalFolder } from './journal-folder.ts'
import { type JournalUpkeep, startJournalUpkeep, type UpkeepOptions } from './journal-upkeep.ts'
import { prepareFolder } from './prepare-folder.ts'

export interface JournalOptions
  extends Pick<UpkeepOptions, 'mode' | 'askEnvoy' | 'now' | 'monotonic' | 'onRestored'> {
  /** USAGE_JOURNAL. */
  readonly path: string
  readonly dataDir: string
  /** Size in bytes at which a file is rotated; with `daily`, also at the end of a day (UTC). */
  readonly maxBytes: number
  readonly daily?: boolean
  /** Whether all other readers have finished a file, so that it may be removed once a checkpoint covers it. */
  readonly isDone?: (file: ListedFile) => boolean
  /** Called once when a problem begins, and once when it ends. */
  readonly onProblem: (problem: JournalProblem, isThere: boolean, cause: unknown) => void
  /** Called with errors of background work. */
  readonly onFault: (error: unknown) => void
}

/** Bound on files that the ledger has not read: bytes if the folder is in memory, files if it is on a disk. */
const [waitingBytes, waitingFiles] = [128 * 1_048_576, 60]
/** Maximum time that a shutdown waits for a disk, in milliseconds. */
const endMs = 2_000

/** Resolves once its files exist and lost ones are restored from copies. Rejects if the journal can't be used. */
export async function openJournal(options: JournalOptions) {
  const { path, dataDir, mode, maxBytes, isDone = () => true, onFault } = options
  const files = journalFilesOf(path)
  const kept = keptJournalOf(path, dataDir)
  const names = [files.script, files.envoy].map((each) => basename(each))
  const folder = openJournalFolder(files.folder, mode)
  prepareFolder(files, mode)
  const name = openGatewayName({ kept: kept.name, shared: files.name, journal: path })
  const isApart = realpathSync(files.folder) !== realpathSync(kept.folder)
  const copies = isApart
    ? createCopies({
        ...{ folder, path: files.folder, keptPath: kept.folder, files: names },
        // The ledger's name of the journal: under a new one it would add every line again.
        same: [basename(ledgerNameOf(path))],
      })
    : undefined
  await copies?.restore()
  const mostFiles = isApart ? Math.max(8, Math.floor(waitingBytes / maxBytes)) : waitingFiles
  /** Removes a file together with its copy. */
  const ownFolder: JournalFolder = {
    ...folder,
    remove(file) {
      folder.remove(file)
      void copies?.remove(file).catch(onFault)
    },
  }
  const health = createJournalHealth(options.onProblem)
  let upkeep: JournalUpkeep | undefined

  async function step(): Promise<void> {
    await copies?.step()
    await name.putBack()
  }

  return {
    folder: ownFolder,
    /** Names of the current files. */
    names,
    /** Prefix of the names of its other files. */
    stem: basename(files.head, '.head'),
    kept: openDurableFiles(kept.folder),
    name,
    health,
    /** The position of the previous version, whose journal may have been where the copies are now. */
    earlierPosition(): JournalPosition {
      const found = readEarlierPosition(path, folder)
      if (found.size > 0 || !isApart) return found
      return readEarlierPosition(join(kept.folder, basename(path)), openJournalFolder(kept.folder))
    },
    /**
     * Whether a file that a checkpoint covers may be removed: Envoy has left it, and all readers have finished it or
     * too many newer ones wait.
     */
    isDone: (file: ListedFile, newer: number): boolean =>
      upkeep?.isLeft(file) === true && (newer >= mostFiles || isDone(file)),
    /**
     * Whether requests must be refused, because their lines would be lost. While lines are overdue, the guard lets one
     * try.
     */
    isFailing: (): boolean =>
      health.isFailing && (health.isFailingBeside('silent') || upkeep?.guard.mayTry() !== true),
    /** Reports that the files were read to their ends, or why they could not be. */
    noteRead(error: unknown): void {
      health.note('unreadable', error)
      if (error === undefined) upkeep?.guard.poll()
    },
    noteLine: (): void => upkeep?.guard.noteLine(),
    /** Reports an allowed request that will have a line. */
    noteAllowed: (): void => upkeep?.guard.noteAllowed(),
    /** Reports that such a request was not forwarded: the gateway has not read the decision. */
    noteLeft: (): void => upkeep?.guard.noteLeft(),
    /** Starts the upkeep. Call it once. */
    keep(by: Pick<UpkeepOptions, 'isWriter' | 'onRenamed' | 'save' | 'isSaveDue'>): void {
      upkeep = startJournalUpkeep({
        ...{ files, names, folder, mode, health, maxBytes, ...by },
        copies: copies && { ...copies, step },
        daily: options.daily ?? false,
        askEnvoy: options.askEnvoy,
        onRestored: options.onRestored,
        now: options.now,
        monotonic: options.monotonic,
      })
    },
    stop: (): void => upkeep?.stop(),
    /** Copies the latest lines at shutdown, waiting for the disk only briefly. */
    copy: async (): Promise<void> => {
      if (copies !== undefined) await withTimeout(endMs, copies.step()).catch(onFault)
    },
  }
}
