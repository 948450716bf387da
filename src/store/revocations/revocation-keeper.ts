/**
 * Also stores revocations outside of the database, so that restoring a backup does not reactivate
 * revoked keys: one file per process in a shared folder. A key that any of them has seen revoked
 * stays refused, whatever the database contains, and is revoked in the database again.
 */

import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { ServiceError } from '../../core/decision/errors.ts'
import type { Sql } from '../postgres/sql.ts'
import {
  type EndedKey,
  endAgain,
  forgetForeignTransactions,
  pageRows,
  readEnded,
  readRevoked,
} from './ended-keys.ts'
import { append, compact, fileOf, listFiles, readFile, removeSpent } from './revocation-file.ts'

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
  /**
   * These keys were active again in the database although they were ended; they are revoked again.
   */
  readonly onReplayed: (ids: readonly string[]) => void
  /** Lines of a file cannot be parsed. */
  readonly onBroken: (file: string, lines: number) => void
  /** The file cannot be written; undefined: it can again. */
  readonly onWriting: (error: unknown) => void
  /** Any other failure; it is retried. */
  readonly onFault: (error: unknown) => void
  /** How long a revocation waits for the disk at most, in milliseconds; 1 second by default. */
  readonly deadlineMs?: number
}

export interface KeeperStats {
  /** Ended, unexpired keys that this process knows. */
  readonly entries: number
  /** Keys that had to be revoked again in the database. */
  readonly replayed: number
  /** Whether something could not be written. */
  readonly failing: boolean
}

export type RevocationKeeper = ReturnType<typeof createRevocationKeeper>

/** How long a key is remembered after it has expired, because clocks differ. */
const expiredKeptMs = 86_400_000
/** Between two attempts to write, or to update the database. */
const retryMs = 1_000
/** The file is rewritten when this many lines are obsolete, and at least as many as are needed. */
const maxSpentLines = 1_000

/** An empty keeper. */
export function createRevocationKeeper(options: RevocationKeeperOptions) {
  const { pool, folder, name, clock, deadlineMs = 1_000 } = options
  const file = fileOf(folder, name)
  /** When each key expires; Infinity: never. */
  const ended = new Map<string, number>()
  /** When replaced secrets end. */
  const ends = new Map<string, number>()
  /** For each file, the number of unreadable lines at the last check. */
  const broken = new Map<string, number>()
  const stopped = new AbortController()
  const { signal } = stopped
  let unwritten: EndedKey[] = []
  let isFailing = false
  let isComplete = false
  let lines = 0
  let replayed = 0
  let snapshot: string | undefined
  /** Serializes writes to the file. */
  let turn: Promise<unknown> = Promise.resolve()

  const isNeeded = ({ expiresAt }: Pick<EndedKey, 'expiresAt'>): boolean =>
    expiresAt === null || expiresAt + expiredKeptMs > clock()

  /** When a key ends; 0: it has ended, undefined: that is not known. */
  function endOf(hash: string): number | undefined {
    return ended.has(hash) ? (ends.get(hash) ?? 0) : undefined
  }

  /** Returns the keys that are new, or end earlier. */
  function add(keys: readonly EndedKey[]): readonly EndedKey[] {
    const fresh = keys.filter(
      (key) => isNeeded(key) && (key.endsAt ?? 0) < (endOf(key.hash) ?? Infinity),
    )
    for (const { hash, expiresAt, endsAt } of fresh) {
      ended.set(hash, expiresAt ?? Infinity)
      if (endsAt === undefined) ends.delete(hash)
      else ends.set(hash, endsAt)
    }
    return fresh
  }

  /** Not by `push`: a bulk revocation may have more keys than a function may have arguments. */
  function queue(keys: readonly EndedKey[]): void {
    unwritten = unwritten.concat(keys)
  }

  async function readFolder(): Promise<void> {
    for (const path of await listFiles(folder)) {
      const content = await readFile(path, (keys) =>
        options.evict(add(keys).map(({ hash }) => hash)),
      )
      if (path === file) {
        lines = content.lines
        isComplete = content.isComplete
      }
      if (content.broken > (broken.get(path) ?? 0)) options.onBroken(path, content.broken)
      broken.set(path, content.broken)
    }
  }

  /** Writes the queue, once for all waiters; false: that failed. */
  function write(): Promise<boolean> {
    const written = turn.then(async () => {
      const keys = unwritten
      if (keys.length === 0) return true
      try {
        if (lines > 0 && !existsSync(file)) {
          // The file was removed: its content is read from the table again.
          isComplete = false
          finishFile()
        }
        await append(file, keys)
        unwritten = unwritten.slice(keys.length)
        lines += keys.length
        if (isFailing) options.onWriting(undefined)
        isFailing = false
        return true
      } catch (error) {
        if (!isFailing) options.onWriting(error)
        isFailing = true
        return false
      }
    })
    turn = written
    return written
  }

  /** Adds all revoked keys of the table, once in the life of the file. */
  async function complete(): Promise<void> {
    if (isComplete) return
    for (let after = ''; !signal.aborted; ) {
      const keys = await readRevoked(pool, after)
      add(keys)
      queue(keys)
      after = keys.at(-1)?.id ?? ''
      if (!(await write())) {
        // Reported already.
        await delay(retryMs, undefined, { signal, ref: false }).catch(() => {})
        return finishFile()
      }
      if (keys.length < pageRows) break
    }
    const ended = turn.then(() => append(file, [], true))
    turn = ended.catch(() => {})
    await ended
    isComplete = true
  }

  /** Reads new rows of the log; this process's own revocations are known already. */
  async function takeLog(): Promise<void> {
    let next: string | undefined
    for (let after: string | undefined = '0'; after !== undefined && !signal.aborted; ) {
      const page = await readEnded(pool, snapshot, after)
      next ??= page.snapshot
      queue(add(page.ended))
      after = page.last
    }
    snapshot = next
    if (!(await write())) rewrite()
  }

  async function replayInDatabase(): Promise<void> {
    await readFolder()
    await forgetForeignTransactions(pool)
    const now = clock()
    const hashes = [...ended.keys()].filter((hash) => (ends.get(hash) ?? 0) <= now)
    const ids: string[] = []
    let left = 0
    for (let i = 0; i < hashes.length && !signal.aborted; i += pageRows) {
      const again = await endAgain(pool, hashes.slice(i, i + pageRows))
      ids.push(...again.ids)
      left += again.left
    }
    replayed += ids.length
    if (ids.length > 0) options.onReplayed(ids)
    // The database may have another history.
    snapshot = undefined
    if (left > 0) throw new Error(`${left} revoked keys are locked in the table and active there`)
  }

  /** Runs once for all calls that arrive before it starts, and again after a failure. */
  function repeatedly(job: () => Promise<void>): () => void {
    let isWanted = false
    let isRunning = false
    return () => {
      isWanted = true
      if (isRunning) return
      isRunning = true
      void (async () => {
        while (isWanted && !signal.aborted) {
          isWanted = false
          try {
            await job()
          } catch (error) {
            // The follower of the log reports outages.
            if (!(error instanceof ServiceError)) options.onFault(error)
            isWanted = true
            await delay(retryMs, undefined, { signal, ref: false }).catch(() => {})
          }
        }
        isRunning = false
      })()
    }
  }

  const readOn = repeatedly(takeLog)
  const rewrite = repeatedly(async () => {
    if (!(await write())) await delay(retryMs, undefined, { signal, ref: false }).catch(() => {})
    if (unwritten.length > 0) rewrite()
  })
  const finishFile = repeatedly(complete)
  const replay = repeatedly(async () => {
    await replayInDatabase()
    readOn()
  })

  return {
    /**
     * When the key with this hash ends, whatever the database contains; 0: it has ended, undefined:
     * that is not known. Milliseconds since the epoch.
     */
    endOf,
    /** Reads every file and updates the database. Rejects if it cannot read. */
    async start(): Promise<void> {
      await readFolder()
      await replayInDatabase().catch((error: unknown) => {
        if (!(error instanceof ServiceError)) options.onFault(error)
        replay()
      })
      readOn()
      finishFile()
    },
    /**
     * True once these keys, and all that were queued before, are on disk; false if that takes too
     * long.
     */
    async keep(keys: readonly EndedKey[]): Promise<boolean> {
      queue(add(keys))
      const late = new AbortController()
      const written = write().then((done) => {
        if (!done) rewrite()
        return done
      })
      const inTime = await Promise.race([
        written,
        delay(deadlineMs, false, { signal: late.signal, ref: false }).catch(() => false),
      ])
      late.abort()
      return inTime
    },
    /** Call it when the log has new rows. */
    readOn,
    /**
     * Call it when the database may be older than this process's knowledge: revokes the keys again.
     */
    replay,
    /** Removes expired keys from memory and file. */
    async clean(): Promise<void> {
      const now = clock()
      for (const [hash, expires] of ended) {
        if (expires + expiredKeptMs > now) continue
        ended.delete(hash)
        ends.delete(hash)
      }
      for (const path of await listFiles(folder)) {
        if (path !== file) await removeSpent(path, isNeeded, 2 * expiredKeptMs)
      }
      if (lines < Math.max(maxSpentLines, 2 * ended.size)) return
      const compacted = turn.then(async () => {
        const isLast = (key: EndedKey) => (key.endsAt ?? 0) <= (endOf(key.hash) ?? Infinity)
        lines = await compact(file, (key) => isNeeded(key) && isLast(key))
      })
      turn = compacted.catch(() => {})
      await compacted
    },
    stats: (): KeeperStats => ({ entries: ended.size, replayed, failing: isFailing }),
    /** Resolves when nothing is written any more. */
    async stop(): Promise<void> {
      await write()
      stopped.abort()
      await turn.catch(() => {})
    },
  }
}
