/**
 * Also stores revocations outside of the database, so that restoring a backup does not reactivate
 * revoked keys: one file per process in a shared folder. A key that any of them has seen revoked
 * stays refused, whatever the database contains, and is revoked in the database again.
 */

import { rm, stat } from 'node:fs/promises'
import { ServiceError } from '../../formats/errors.ts'
import { createRestTimer, repeat } from '../../runtime/loop.ts'
import { withAbort } from '../../runtime/with-abort.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import {
  type EndedKey,
  endedPageRows,
  forgetForeignTransactions,
  readEndedKeys,
  revokeEndedKeysAgain,
} from './ended-keys.ts'
import { createEndedKeysWriter } from './ended-keys-writer.ts'
import { createKnownEnds, expiredKeptMs } from './known-ends.ts'
import { listRevocationFiles, readRevocationFile, revocationFileOf } from './revocation-file.ts'

export interface RevocationKeeperOptions {
  readonly pool: Sql
  /** The folder of the files; it must exist. */
  readonly folder: string
  /** This process's name; unique among living processes. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** Another process's file contains the end of these keys: evict them. */
  readonly evict: (hashes: readonly string[]) => void
  /** These keys were active again in the database although they were ended; they are revoked again. */
  readonly onReplayed: (ids: readonly string[]) => void
  /** Lines of a file cannot be parsed. */
  readonly onBroken: (file: string, lines: number) => void
  /** Called when the file cannot be written, and with undefined when it can again. */
  readonly onWriting: (error: unknown) => void
  /** Any other failure; it is retried. */
  readonly onFault: (error: unknown) => void
  /** How long a revocation waits for the disk at most, in milliseconds; 1 second by default. */
  readonly deadlineMs?: number
}

/** Keys cannot be revoked again yet: a transaction has locked their rows. That is tried again. */
export class LockedRowsError extends Error {
  readonly keys: number

  constructor(keys: number) {
    super(`cannot revoke ${keys} keys again: a transaction has locked their rows`)
    this.keys = keys
  }
}

/** Between two attempts to write, or to update the database. */
const retryMs = 1_000
/** An empty keeper. */
export function createRevocationKeeper(options: RevocationKeeperOptions) {
  const { pool, folder, name, clock, deadlineMs = 1_000 } = options
  const known = createKnownEnds(clock)
  const file = createEndedKeysWriter(revocationFileOf(folder, name), known, options.onWriting)
  const { endOf, isNeeded } = known
  /** For each file, the number of unreadable lines at the last check. */
  const broken = new Map<string, number>()
  const stopped = new AbortController()
  const { signal } = stopped
  const alarm = createRestTimer(signal)
  let running: Promise<void> | undefined
  /** The database may lack revocations that this process knows. */
  let isDoubtful = true
  let replayed = 0

  async function readFolder(): Promise<void> {
    const all = await listRevocationFiles(folder)
    // Its own file first, because entries missing from it are added.
    for (const path of all.toSorted((a, b) => +(b === file.path) - +(a === file.path))) {
      const news: EndedKey[] = []
      const content = await readRevocationFile(path, (key) => {
        if (known.add(key)) news.push(key)
      })
      options.evict(news.map(({ hash }) => hash))
      if (path === file.path) file.noteRead(content.lines)
      else known.queue(news)
      if (content.broken > (broken.get(path) ?? 0)) options.onBroken(path, content.broken)
      broken.set(path, content.broken)
    }
  }

  async function revokeAgain(): Promise<void> {
    await forgetForeignTransactions(pool)
    const { ids, left } = await revokeEndedKeysAgain(pool, known.endedHashes())
    replayed += ids.length
    if (ids.length > 0) options.onReplayed(ids)
    if (left > 0) throw new LockedRowsError(left)
  }

  async function readDatabase(): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !signal.aborted; ) {
      const page = await readEndedKeys(pool, after)
      known.note(page)
      after = page.length < endedPageRows ? undefined : page.at(-1)?.hash
    }
  }

  async function step(): Promise<void> {
    try {
      if (isDoubtful) {
        isDoubtful = false
        await readFolder()
        await revokeAgain()
        await readDatabase()
      }
    } catch (error) {
      isDoubtful = true
      throw error
    } finally {
      await file.write()
    }
  }

  /** The follower of the log reports outages. */
  function onFault(error: unknown): void {
    if (!(error instanceof ServiceError)) options.onFault(error)
  }

  return {
    /**
     * When the key with this hash ends, whatever the database contains; 0 if it has ended, undefined
     * if no end is known. Milliseconds since the epoch.
     */
    endOf,
    /**
     * Reads every file and updates the database. Rejects if it cannot read. Pass revocations that are logged
     * after the call to `note`; earlier ones are read later.
     */
    async start(): Promise<void> {
      await readFolder()
      await revokeAgain().catch(onFault)
      running = repeat({ step, restMs: retryMs, onFault, signal, alarm })
    },
    /** Stores these later. */
    note(keys: readonly EndedKey[]): void {
      known.note(keys)
      if (known.unwritten.length > 0) alarm.ring()
    },
    /** True once these keys, and all that were queued before, are on disk; false if that takes too long. */
    async keep(keys: readonly EndedKey[]): Promise<boolean> {
      known.note(keys)
      return await withAbort(file.write(), AbortSignal.timeout(deadlineMs)).catch(() => false)
    },
    /**
     * Call it when the database may be older than this process's knowledge, or the log have a gap:
     * revokes the keys again.
     */
    replay(): void {
      isDoubtful = true
      alarm.ring()
    },
    /** Removes expired keys from memory and file. */
    async clean(): Promise<void> {
      known.forgetExpired()
      for (const path of await listRevocationFiles(folder)) {
        // Files of others that are no longer written and have no needed key.
        if (path === file.path || Date.now() - (await stat(path)).mtimeMs < 2 * expiredKeptMs)
          continue
        let needed = 0
        await readRevocationFile(path, (key) => {
          if (isNeeded(key)) needed += 1
        })
        if (needed === 0) await rm(path, { force: true })
      }
      await file.compact()
    },
    /**
     * Numbers of ended, unexpired keys that this process knows and of keys that had to be revoked again in the database;
     * whether something could not be written.
     */
    stats: () => ({ entries: known.size, replayed, failing: file.isFailing }),
    /** Resolves when all writing has stopped. */
    async stop(): Promise<void> {
      await file.write()
      stopped.abort()
      await running
    },
  }
}
