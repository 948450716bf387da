import root from 'tap'

/**
 * Calls `close` at the end of this process: with its file, or, where files share the process, when none is left. For what is
 * costly to start and the same for all of them.
 */
export function atProcessEnd(close: () => Promise<unknown>): void {
  if (process.connected) process.once('disconnect', () => void close())
  else root.teardown(close)
}
