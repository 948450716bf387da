/** The process of a command of `tollgate`: see commands.ts for what they are. */
import { cacheCompiled } from '../runtime/compile-cache.ts'
import { boundHeap } from '../runtime/heap.ts'
import { runCommand } from './run-command.ts'

const argv = process.argv.slice(2)
if (argv[0] === 'serve') boundHeap()
cacheCompiled()
try {
  process.exitCode = await runCommand(argv)
} catch (error) {
  // A bug, whose place is worth more than its sentence.
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
  process.exitCode = 1
}
// What a failed command has left open must not keep its process.
if (process.exitCode !== 0) process.exit()
