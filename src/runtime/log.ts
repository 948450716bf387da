/**
 * The log of a process: a JSON object per line on stdout. A log that cannot be written must stop neither the process nor
 * its end: lines wait in memory, and those beyond its bound are dropped and counted.
 */

import { destination, type Logger, pino } from 'pino'

export type { Logger }

/** Maximum bytes that wait to be written. */
const maxWaiting = 4_194_304

export function createLog(level: string): Logger {
  const output = destination({ dest: 1, sync: false, maxLength: maxWaiting })
  const log = pino({ level }, output)
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
  })
  output.on('drain', () => {
    if (dropped === 0) return
    const lines = dropped
    dropped = 0
    log.warn(
      { code: 'log_lines_dropped', lines },
      'log output could not be written: lines were dropped',
    )
  })

  // At exit it would repeat a failing write until it succeeds.
  const flush = output.flushSync.bind(output)
  output.flushSync = () => {
    if (!isFailing) flush()
  }
  return log
}
