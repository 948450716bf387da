import { spawn } from 'node:child_process'

/**
 * Waits for the end of its standard input, which is that of the process that holds the other end,
 * however it ended. Then sends the signals, one a second; signal 0 sends nothing but finds out
 * whether there is still anybody to send the next one to.
 */
const script = `pid=$1; shift
read -r _
for signal; do
  kill -s "$signal" -- "$pid" 2>/dev/null || exit 0
  sleep 1
done`

/**
 * Sees to it that a program that cannot watch its parent does not outlive this process, even where
 * this process is killed: `pid` gets the signals then, a second apart, as long as it runs. Call the
 * result once it has ended by itself. Where there is no `sh` it is left for the next start to stop.
 */
export function endWithUs(pid: number, signals: readonly (NodeJS.Signals | '0')[]): () => void {
  const names = signals.map((signal) => signal.replace('SIG', ''))
  const watcher = spawn('sh', ['-c', script, 'sh', String(pid), ...names], {
    // Neither a Ctrl-C at the terminal nor the end of our group is for it.
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
