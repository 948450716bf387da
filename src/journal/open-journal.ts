/**
 * Opens the journal of a gateway and keeps it in order: its folder, its name, files that have grown, their copies, and
 * whether lines come at all.
 */

import { realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import { withTimeout } from '../runtime/with-timeout.ts'
import { createCopies } from './copies.ts'
import { openDurableFiles } from './durable-files.ts'
import { readEarlierPosition } from './earlier-position.ts'
import { filesOf, keptJournalOf } from './files.ts'
import { type Folder, type Listed, openFolder } from './folder.ts'
import type { Position } from './follower.ts'
import { createJournalHealth, type JournalProblem } from './health.ts'
import { openName } from './name.ts'
import { prepareFolder } from './prepare-folder.ts'
import { startUpkeep, type Upkeep, type UpkeepOptions } from './upkeep.ts'

export interface JournalOptions
  extends Pick<UpkeepOptions, 'mode' | 'askEnvoy' | 'now' | 'monotonic'> {
  /** USAGE_JOURNAL. */
  readonly path: string
  readonly dataDir: string
  /** At this size in bytes a file is renamed; with `daily` at the end of a day (UTC), too. */
  readonly maxBytes: number
  readonly daily?: boolean
  /** Whether other readers are done with a file, so that it may be removed once it is saved. */
  readonly isDone?: (file: Listed) => boolean
  /** Called once when something begins to be wrong with the journal, and once when it ends. */
  readonly onProblem: (problem: JournalProblem, isThere: boolean, cause: unknown) => void
  /** What failed in the background, and is tried again. */
  readonly onFault: (error: unknown) => void
}

/** What the ledger has not read may take so many bytes of memory, or so many files of a disk. */
const [waitingBytes, waitingFiles] = [128 * 1_048_576, 60]
/** How long an end waits for a disk. */
const endMs = 2_000

/** Its files are there once it resolves, and their copies are back. Throws or rejects if the journal can't be used. */
export async function openJournal(options: JournalOptions) {
  const { path, dataDir, mode, maxBytes, isDone = () => true, onFault } = options
  const files = filesOf(path)
  const kept = keptJournalOf(path, dataDir)
  const names = [files.script, files.envoy].map((each) => basename(each))
  const folder = openFolder(files.folder, mode)
  prepareFolder(files, mode)
  const name = openName({ kept: kept.name, shared: files.name, journal: path })
  const isApart = realpathSync(files.folder) !== realpathSync(kept.folder)
  const copies = isApart
    ? createCopies({ folder, path: files.folder, keptPath: kept.folder, files: names })
    : undefined
  await copies?.fill()
  const mostFiles = isApart ? Math.max(8, Math.floor(waitingBytes / maxBytes)) : waitingFiles
  /** With a file its copy goes. */
  const ownFolder: Folder = {
    ...folder,
    remove(file) {
      folder.remove(file)
      void copies?.remove(file).catch(onFault)
    },
  }
  const health = createJournalHealth(options.onProblem)
  let upkeep: Upkeep | undefined

  return {
    folder: ownFolder,
    /** Of the files with lines. */
    names,
    /** What the names of files beside them begin with. */
    stem: basename(files.head, '.head'),
    kept: openDurableFiles(kept.folder),
    name,
    health,
    /** Of the version before, whose journal may have been where the copies are now. */
    earlierPosition(): Position {
      const found = readEarlierPosition(path, folder)
      if (found.size > 0 || !isApart) return found
      return readEarlierPosition(join(kept.folder, basename(path)), openFolder(kept.folder))
    },
    /** Whether a file may be removed that is saved: Envoy has left it, and all have read it or `newer` files are too many. */
    isDone: (file: Listed, newer: number): boolean =>
      upkeep?.isLeft(file) === true && (newer >= mostFiles || isDone(file)),
    /** Whether nothing is to be allowed. */
    isFailing: (): boolean =>
      health.isFailing && (health.isFailingBeside('silent') || upkeep?.guard.mayTry() !== true),
    /** The files were read to their ends, or could not be. */
    noteRead(error: unknown): void {
      health.note('unreadable', error)
      if (error === undefined) upkeep?.guard.poll()
    },
    noteLine: (): void => upkeep?.guard.noteLine(),
    /** A request was allowed that has a line. */
    noteAllowed: (): void => upkeep?.guard.noteAllowed(),
    /** Keeps the files in order from now on. To be called once. */
    keep(by: Pick<UpkeepOptions, 'isWriter' | 'onRenamed' | 'save'>): void {
      upkeep = startUpkeep({
        ...{ files, names, folder, mode, copies, health, maxBytes, ...by },
        daily: options.daily ?? false,
        askEnvoy: options.askEnvoy,
        now: options.now,
        monotonic: options.monotonic,
      })
    },
    stop: (): void => upkeep?.stop(),
    /** Copies what has grown, at an end; waits for a disk only briefly. */
    copy: async (): Promise<void> => {
      if (copies !== undefined) await withTimeout(endMs, copies.step()).catch(onFault)
    },
  }
}
