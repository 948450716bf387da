const pollMs = 500

/**
 * Calls back once when the parent process is gone without a signal: npm passes none on when it is
 * killed, and our own launcher cannot. Only if a parent waits for this process (an npm script, an
 * IPC channel); a service in the background keeps running.
 */
export function onParentGone(callback: () => void): void {
  let notified = false
  const notify = () => {
    if (!notified) callback()
    notified = true
  }
  if (process.connected) process.once('disconnect', notify)
  else if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) notify()
  }, pollMs).unref()
}
