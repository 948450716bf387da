/**
 * The log of a process: a JSON object per line on stdout. A log that cannot be written must stop neither the process nor
 * its end: lines wait in memory, and those beyond its bound are dropped and counted.
 */

import { destination, type Logger, pino } from 'pino'

export type { Logger }

/** The queue of lines that a log has for standard output, which is also for lines of others: so they do not mix. */
interface LogQueue {
  /** Whether the line was written within this time in milliseconds. A line that was not may still be written later. */
  write(line: string, timeoutMs: number): Promise<boolean>
}

const queues = new WeakMap<Logger, LogQueue>()

/** The queue of a log, or undefined if it does not write to standard output. */
export const logQueueOf = (log: Logger): LogQueue | undefined => queues.get(log)

/** Maximum bytes that wait to be written. */
const maxWaiting = 4_194_304

/** How long the end of the process waits for a reader that reads nothing, in milliseconds. */
const readWithinMs = 1_000

export function createLog(level: string): Logger {
  // Opening it makes writes to a full pipe fail: a thread that waits for room would block the exit.
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => {})
  let isWaiting = false
  /**
   * During the last flush: when to give up on a reader that reads nothing, and the bytes left before the last attempt.
   */
  let end: { at: number; left: number } | undefined
  const output = destination({
    ...{ dest: 1, sync: false, maxLength: maxWaiting },
    retryEAGAIN(_error, writing, others) {
      isWaiting = true
      if (end === undefined) return true
      const left = writing + others
      if (left < end.left) end = { at: performance.now() + readWithinMs, left }
      return performance.now() < end.at
    },
  })
  const queue = createQueue(output)
  const log = pino({ level }, output)
  queues.set(log, queue)
  let isFailing = false
  let dropped = 0

  // The output repeats a failed line with the next one, so there is nothing to do until then.
  output.on('error', () => {
    isFailing = true
  })
  output.on('drop', () => {
    dropped += 1
  })
  output.on('write', () => {
    isFailing = false
    isWaiting = false
  })
  output.on('drain', () => {
    if (dropped === 0) return
    const lines = dropped
    dropped = 0
    log.warn({ code: 'log_lines_dropped', lines }, 'resumed writing the log: lines were dropped')
  })

  // At exit it would repeat a failing write until it succeeds.
  const flush = output.flushSync.bind(output)
  output.flushSync = () => {
    if (isFailing) return
    // The flush regards bytes that wait for room as written.
    if (isWaiting) Object.assign(output, { _writing: false })
    end = { at: 0, left: Number.POSITIVE_INFINITY }
    try {
      flush()
    } catch {
      // Standard output has no reader.
    }
    end = undefined
  }
  return log
}

function createQueue(output: ReturnType<typeof destination>): LogQueue {
  /** Bytes, since the start. */
  let [queued, written] = [0, 0]
  /** By the byte after their line, in order. */
  const waiting = new Map<number, (isWritten: boolean) => void>()
  const write = output.write.bind(output)
  output.write = (text) => {
    queued += Buffer.byteLength(text)
    return write(text)
  }
  output.on('drop', (text) => {
    queued -= Buffer.byteLength(text)
  })
  output.on('write', (bytes) => {
    written += bytes
    for (const [end, settle] of waiting) {
      if (end > written) break
      settle(true)
    }
  })
  output.on('error', () => {
    for (const settle of waiting.values()) settle(false)
  })
  return {
    write(line, timeoutMs) {
      const begin = queued
      output.write(line)
      const end = queued
      if (end === begin) return Promise.resolve(false)
      return new Promise((resolve) => {
        const late = setTimeout(() => settle(false), timeoutMs)
        function settle(isWritten: boolean): void {
          clearTimeout(late)
          waiting.delete(end)
          resolve(isWritten)
        }
        waiting.set(end, settle)
      })
    },
  }
}
