import { onParentGone } from './parent-watch.ts'

// npm, the launcher and the terminal may each pass on one and the same Ctrl-C.
const sameSignalMs = 500
const killedStatus = 130

/**
 * Settles with the reason once this process is asked to stop: SIGINT, SIGTERM, SIGHUP, or the end of
 * whoever started it. Asked again half a second or more later it calls `kill` and ends at once.
 */
export function onStop(kill: () => void): Promise<string> {
  // A terminal that went away must not end us in the middle of stopping.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  return new Promise((settle) => {
    let askedAt: number | undefined
    const ask = (reason: string) => {
      if (askedAt === undefined) {
        askedAt = Date.now()
        settle(reason)
      } else if (Date.now() - askedAt >= sameSignalMs) {
        kill()
        process.exit(killedStatus)
      }
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => ask(signal))
    }
    onParentGone(() => {
      if (askedAt === undefined) ask('whoever started it is gone')
    })
  })
}
