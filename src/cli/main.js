/**
 * The process of a command of `tollgate`: see commands.ts for what they are. It and what it imports first are
 * JavaScript: sources that are stripped of their types before the cache holds them take each command longer than most
 * take otherwise.
 */
import { cacheCompiled } from '../runtime/compile-cache.js'
import { boundHeap } from '../runtime/heap.js'

const argv = process.argv.slice(2)
if (argv[0] === 'serve') boundHeap()
cacheCompiled()
const { runCommand } = await import('./run-command.ts')
try {
  const status = await runCommand(argv)
  // Not 0 already if output was lost.
  process.exitCode ||= status
} catch (error) {
  // A bug, whose place is worth more than its sentence.
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
  process.exitCode = 1
}
// What a failed command has left open must not keep its process.
if (process.exitCode !== 0) process.exit()
