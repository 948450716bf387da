import root from 'tap'

/**
 * Calls `close` at the end of this process: with its file, or if files share the process, after the last one. For what
 * is costly to start and can be shared.
 */
export function atProcessEnd(close: () => Promise<unknown>): void {
  if (process.connected) process.once('disconnect', () => void close())
  else root.teardown(close)
}
