/**
 * The process of a `tollgate` command (commands.ts). This file and its first imports are JavaScript: stripping types
 * from sources before they are in the cache takes longer than most commands otherwise take.
 */
import { cacheCompiled } from '../runtime/compile-cache.js'
import { boundHeap } from '../runtime/heap.js'

const argv = process.argv.slice(2)
// The kernel does not end the first process of a container by a signal that it does not handle: a pod that is deleted
// while the command loads would remain until the end of its grace period. A command that stops by itself has a listener too.
if (process.pid === 1) {
  process.on('SIGTERM', () => process.listenerCount('SIGTERM') > 1 || process.exit(143))
}
// Whoever may write to the folders of revocations or of Envoy's configuration may replace their files.
process.umask(process.umask(0o022) | 0o002)
// Set by bin/tollgate under nohup.
if (process.env.TOLLGATE_NOHUP !== undefined) process.on('SIGHUP', () => {})
// A thread of the pool waits as long as a disk hangs. If all of Node's four do, no file is read and no name resolved:
// tokens and policies that were removed would stay in force.
process.env.UV_THREADPOOL_SIZE ||= '16'
if (argv[0] === 'serve') boundHeap()
cacheCompiled()
const { runCommand } = await import('./run-command.ts')
try {
  const status = await runCommand(argv)
  // Already nonzero if output was lost.
  process.exitCode ||= status
} catch (error) {
  // A bug: its stack is worth more than its message.
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
  process.exitCode = 1
}
// Resources that a failed command has left open must not keep its process alive.
if (process.exitCode !== 0) process.exit()
