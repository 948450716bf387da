/** The program of a worker, started by workers.ts. */

import { cacheCompiled } from '../../cli/compile-cache.ts'
import { boundHeap } from '../../cli/heap.ts'

boundHeap()
cacheCompiled()
// The heap must be bounded before this is loaded.
const { runWorker } = await import('./worker.ts')
runWorker()
