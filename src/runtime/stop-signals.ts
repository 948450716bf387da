/** Tells a program that it is to stop, and ends it at once when it is told again. */

// npm, the launcher and the terminal may each pass on the same Ctrl-C.
const sameSignalMs = 500
const killedStatus = 130
const parentPollMs = 500

/**
 * Resolves with the reason when this process is asked to stop: SIGINT, SIGTERM, SIGHUP unless that is
 * ignored, or the end of its parent. A further signal half a second or more later calls `kill` and ends it at once.
 */
export function awaitStopSignal(kill: () => void): Promise<string> {
  // A closed terminal must not end the process while it is stopping.
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
    const isIgnored = process.env.TOLLGATE_NOHUP !== undefined
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      if (signal !== 'SIGHUP' || !isIgnored) process.on(signal, () => ask(signal))
    }
    onParentGone(() => {
      if (askedAt === undefined) ask('the process that started it has ended')
    })
  })
}

/**
 * Calls `callback` when the parent process ends without sending a signal, as npm and our launcher do when they are
 * killed. Only if a parent waits for this process (an npm script, an IPC channel); a service in the background
 * continues to run.
 */
function onParentGone(callback: () => void): void {
  if (process.connected) process.once('disconnect', callback)
  else if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) callback()
  }, parentPollMs).unref()
}
