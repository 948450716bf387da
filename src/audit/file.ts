/** The output of the audit trail: a file, which others may rename, or standard output. */

import { writeSync } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { type Logger, logQueueOf } from '../runtime/log.ts'
import { repeat } from '../runtime/loop.ts'
import { createMutex } from '../runtime/mutex.ts'
import { withTimeout } from '../runtime/with-timeout.ts'

export interface AuditSink {
  /**
   * Whether the line was passed to the system within two seconds. Calls `onLost` once it is known that it never will be;
   * on standard output, where that is not known, as soon as the two seconds are over. Never rejects.
   */
  write(line: string, onLost?: () => void): Promise<boolean>
  /** Resolves when all pending lines are written, or after this time. */
  close(graceMs: number): Promise<void>
}

/** How long a response may wait for its line. */
const timeoutMs = 2_000
/** Maximum number of lines that wait for a hanging disk; further ones are lost. */
const maxWaiting = 10_000
/** How often a renamed file is detected. */
const pollMs = 500
/** How long another process may take to write the rest of a line. */
const restMs = 10

/**
 * Appends to a file. Concurrent lines are written together, in order. When the path leads to
 * another file, or to none, the file is reopened: at the next line, within half a second.
 */
export function openAuditFile(path: string, onFault = (_error: unknown): void => {}): AuditSink {
  /** Lines that no flush has taken, by the function that says whether they were written. */
  const waiting = new Map<(written: boolean) => void, string>()
  let file: FileHandle | undefined
  /** Whether a flush waits for its turn; it takes all lines. */
  let isDue = false
  /** Operations on the file run one after the other. */
  const withLock = createMutex()

  async function reopen(): Promise<void> {
    if (file !== undefined && (await isSame(file, path))) return
    const fresh = await open(path, 'a', 0o600)
    await file?.close().catch(() => {})
    file = fresh
  }

  async function flush(): Promise<void> {
    isDue = false
    if (waiting.size === 0) return
    const lines = new Map(waiting)
    waiting.clear()
    let written = false
    try {
      await reopen()
      written = await append([...lines.values()].join(''))
    } catch (error) {
      // Lines that are not written are lost, and their waiters get false.
      onFault(error)
    }
    for (const settle of lines.keys()) settle(written)
  }

  /** A disk that fills up may have part of a line, of any process; the next one then begins on a new line. */
  async function append(text: string): Promise<boolean> {
    const bytes = Buffer.from((await isTorn(file, path)) ? `\n${text}` : text)
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = (await file?.write(bytes, at)) ?? { bytesWritten: 0 }
      at += bytesWritten
      if (bytesWritten === 0) return false
    }
    return true
  }

  const closing = new AbortController()
  const { signal } = closing
  // The next line tries again to open it.
  void repeat({ step: () => withLock(reopen), restMs: pollMs, onFault: () => {}, signal })

  return {
    write(line, onLost = () => {}) {
      return new Promise((resolve) => {
        // One that is being written is not lost yet.
        const onLate = () => (waiting.delete(settle) ? settle : resolve)(false)
        const late = setTimeout(onLate, timeoutMs)
        function settle(written: boolean): void {
          clearTimeout(late)
          if (!written) onLost()
          resolve(written)
        }
        if (waiting.size >= maxWaiting) return settle(false)
        waiting.set(settle, line)
        if (!isDue) void withLock(flush)
        isDue = true
      })
    },
    async close(graceMs) {
      closing.abort()
      const ended = withLock(async () => {
        await file?.close().catch(() => {})
        file = undefined
      })
      await withTimeout(graceMs, ended)
    },
  }
}

/** An output of a process without a log. */
function openAuditStream(fd: number): AuditSink {
  return {
    write: noteLost(async (line) => {
      const giveUpAt = performance.now() + timeoutMs
      const bytes = Buffer.from(line)
      for (let at = 0; at < bytes.length; ) {
        try {
          at += writeSync(fd, bytes, at)
        } catch (error) {
          const isFull = (error as NodeJS.ErrnoException).code === 'EAGAIN'
          if (!isFull || performance.now() > giveUpAt) return false
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      }
      return true
    }),
    async close() {},
  }
}

function noteLost(write: (line: string) => Promise<boolean>): AuditSink['write'] {
  return async (line, onLost) => {
    const written = await write(line)
    if (!written) onLost?.()
    return written
  }
}

async function isSame(file: FileHandle, path: string): Promise<boolean> {
  const [own, there] = await Promise.all([file.stat(), stat(path).catch(() => undefined)])
  return own.ino === there?.ino && own.dev === there.dev
}

/**
 * Whether it ends within a line that nobody is writing. Pipes and devices, and files that only others may read, do not.
 */
async function isTorn(file: FileHandle | undefined, path: string): Promise<boolean> {
  for (let earlier = 0; ; await delay(restMs)) {
    const { size = 0 } = (await file?.stat()) ?? {}
    if (size === 0) return false
    const reader = await open(path).catch(() => undefined)
    const at = { buffer: Buffer.alloc(1), position: size - 1 }
    const read = await reader?.read(at).finally(() => reader.close())
    if (read?.bytesRead !== 1 || read.buffer[0] === 0x0a) return false
    if (size === earlier) return true
    earlier = size
  }
}

/**
 * The sink for AUDIT_LOG, a file's path or `stdout`; undefined if there is no trail. `stdout` is the output of the log, or for
 * a process without one this descriptor.
 */
export function openAuditSink(
  auditLog: string | undefined,
  output: Logger | 1 | 2,
  onFault?: (error: unknown) => void,
): AuditSink | undefined {
  if (auditLog === undefined) return undefined
  if (auditLog !== 'stdout') return openAuditFile(auditLog, onFault)
  if (typeof output === 'number') return openAuditStream(output)
  const queue = logQueueOf(output)
  if (queue === undefined) return openAuditStream(1)
  return { write: noteLost((line) => queue.write(line, timeoutMs)), async close() {} }
}
