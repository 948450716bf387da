/**
 * Keeps what was revoked outside of the database as well, so that a backup that is restored does
 * not bring revoked keys back to life: a file for each process in one folder. What any of them has
 * seen stays refused, whatever the database says, and the database is told again.
 */

import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { ServiceError } from '../../core/errors.ts'
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
  /** Of the files; it has to be there. */
  readonly folder: string
  /** What this process is called; no two that live at a time share it. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly clock: () => number
  /** These were ended by what another process has written: forget them. */
  readonly evict: (hashes: readonly string[]) => void
  /** The database had these as active again, though they were ended; now it has them as revoked. */
  readonly onReplayed: (ids: readonly string[]) => void
  /** Lines of a file cannot be read. */
  readonly onBroken: (file: string, lines: number) => void
  /** The file cannot be written; undefined: it can again. */
  readonly onWriting: (error: unknown) => void
  /** Any other failure; it is tried again. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds that a revocation waits for the disk at most; 1 second when absent. */
  readonly deadlineMs?: number
}

export interface KeeperStats {
  /** Ended keys that have not expired, as this process knows them. */
  readonly entries: number
  /** Keys that the database had to be told of again. */
  readonly replayed: number
  /** Whether there is something that could not be written. */
  readonly failing: boolean
}

export type RevocationKeeper = ReturnType<typeof createRevocationKeeper>

/** A key is remembered for so long after it has expired: clocks differ. */
const expiredKeptMs = 86_400_000
/** Between two attempts to write, or to tell the database. */
const retryMs = 1_000
/** The file is written anew when so many lines are not needed, and at least as many as are. */
const mostSpentLines = 1_000

/** A keeper that knows nothing yet. */
export function createRevocationKeeper(options: RevocationKeeperOptions) {
  const { pool, folder, name, clock, deadlineMs = 1_000 } = options
  const file = fileOf(folder, name)
  /** When each expires; Infinity: never. */
  const ended = new Map<string, number>()
  /** Of each file, the lines that could not be read when last looked. */
  const broken = new Map<string, number>()
  const stopped = new AbortController()
  const { signal } = stopped
  let unwritten: EndedKey[] = []
  let isFailing = false
  let isComplete = false
  let lines = 0
  let replayed = 0
  let snapshot: string | undefined
  /** One at a time writes to the file. */
  let turn: Promise<unknown> = Promise.resolve()

  const isNeeded = ({ expiresAt }: Pick<EndedKey, 'expiresAt'>): boolean =>
    expiresAt === null || expiresAt + expiredKeptMs > clock()

  /** Answers those that are news. */
  function add(keys: readonly EndedKey[]): readonly EndedKey[] {
    const fresh = keys.filter((key) => isNeeded(key) && !ended.has(key.hash))
    for (const { hash, expiresAt } of fresh) ended.set(hash, expiresAt ?? Infinity)
    return fresh
  }

  /** Not by `push`: a bulk revocation has more keys than a function may have arguments. */
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

  /** Writes what is to be written, once for all who wait; false: it could not. */
  function write(): Promise<boolean> {
    const written = turn.then(async () => {
      const keys = unwritten
      if (keys.length === 0) return true
      try {
        if (lines > 0 && !existsSync(file)) {
          // Somebody has removed it: what was in it comes from the table again.
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

  /** Everything that the table has as revoked, once in the life of the file. */
  async function complete(): Promise<void> {
    if (isComplete) return
    for (let after = ''; !signal.aborted; ) {
      const keys = await readRevoked(pool, after)
      add(keys)
      queue(keys)
      after = keys.at(-1)?.id ?? ''
      if (!(await write())) {
        // Told already.
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

  /** What the log has since it was last read; of what this process revoked itself it is no news. */
  async function takeLog(): Promise<void> {
    let next: string | undefined
    for (let after: string | undefined = '0'; after !== undefined && !signal.aborted; ) {
      const page = await readEnded(pool, snapshot, after)
      next ??= page.snapshot
      queue(add(page.ended))
      after = page.last
    }
    snapshot = next
    await write()
  }

  async function tellDatabase(): Promise<void> {
    await readFolder()
    await forgetForeignTransactions(pool)
    const hashes = [...ended.keys()]
    const ids: string[] = []
    let left = 0
    for (let i = 0; i < hashes.length && !signal.aborted; i += pageRows) {
      const again = await endAgain(pool, hashes.slice(i, i + pageRows))
      ids.push(...again.ids)
      left += again.left
    }
    replayed += ids.length
    if (ids.length > 0) options.onReplayed(ids)
    // Of another history, perhaps.
    snapshot = undefined
    if (left > 0) throw new Error(`${left} revoked keys are locked in the table and active there`)
  }

  /** Runs once for all who ask while it waits to run, and again after a failure. */
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
            // An outage is told of by who follows the log.
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
    await tellDatabase()
    readOn()
  })

  return {
    /** Whether the key with this hash was ended, whatever the database says of it. */
    has: (hash: string): boolean => ended.has(hash),
    /** Reads every file and tells the database what it does not know. Rejects when it cannot read. */
    async start(): Promise<void> {
      await readFolder()
      await tellDatabase().catch((error: unknown) => {
        if (!(error instanceof ServiceError)) options.onFault(error)
        replay()
      })
      readOn()
      finishFile()
    },
    /** True once these, and all that was to be written before, are on the disk; false: not in time. */
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
    /** The log has something new. */
    readOn,
    /** The database may be older than what is known here: it is told again. */
    replay,
    /** Drops what has expired from memory and file. */
    async clean(): Promise<void> {
      const now = clock()
      for (const [hash, expires] of ended) if (expires + expiredKeptMs <= now) ended.delete(hash)
      for (const path of await listFiles(folder)) {
        if (path !== file) await removeSpent(path, isNeeded, 2 * expiredKeptMs)
      }
      if (lines < Math.max(mostSpentLines, 2 * ended.size)) return
      const compacted = turn.then(async () => {
        lines = await compact(file, isNeeded)
      })
      turn = compacted.catch(() => {})
      await compacted
    },
    stats: (): KeeperStats => ({ entries: ended.size, replayed, failing: isFailing }),
    /** Settles when nothing is written any more. */
    async stop(): Promise<void> {
      await write()
      stopped.abort()
      await turn.catch(() => {})
    },
  }
}
