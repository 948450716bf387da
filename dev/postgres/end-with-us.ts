import { type ChildProcess, spawn } from 'node:child_process'

/**
 * Waits for the end of its standard input, which closes when the process at the other end exits, for any reason. Then
 * sends the signals, one per second; signal 0 sends nothing but checks that the process still exists.
 */
const script = `pid=$1; shift
read -r _
for signal; do
  kill -s "$signal" -- "$pid" 2>/dev/null || exit 0
  sleep 1
done`

/**
 * Ensures that a program that cannot watch its parent does not outlive this process, even if this
 * process is killed: `pid` then gets the signals, one second apart, as long as it runs. Call the
 * result once it has ended by itself. Without `sh`, the next start stops the program instead.
 */
export function endWithUs(pid: number, signals: readonly (NodeJS.Signals | '0')[]): () => void {
  const names = signals.map((signal) => signal.replace('SIG', ''))
  const watcher = spawn('sh', ['-c', script, 'sh', String(pid), ...names], {
    // A Ctrl-C at the terminal or the end of our process group must not reach it.
    detached: true,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watcher.on('error', () => {})
  watcher.stdin.on('error', () => {})
  watcher.unref()
  if ('unref' in watcher.stdin) (watcher.stdin.unref as () => void)()
  return () => void watcher.kill('SIGKILL')
}

/** Resolves with how a process ended: `exit code 1`, `SIGKILL`, or why it cannot be run. */
export function howItEnds(child: ChildProcess): Promise<string> {
  return new Promise((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('exit', (code, signal) => settle(code === null ? `${signal}` : `exit code ${code}`))
  })
}
