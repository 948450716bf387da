const pollMs = 500

/**
 * Calls back once when the process that started us is gone without having told us: npm passes no
 * signal on when it is killed, and our own launcher cannot. Watches only where somebody waits for
 * us in that way (a script of npm, an IPC channel); a service that was put in the background keeps
 * running.
 */
export function onParentGone(callback: () => void): void {
  let told = false
  const tell = () => {
    if (!told) callback()
    told = true
  }
  if (process.connected) process.once('disconnect', tell)
  else if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) tell()
  }, pollMs).unref()
}
