/** The program of a worker, started by workers.ts. */

import { boundHeap } from '../../cli/heap.ts'

boundHeap()
// The heap must be bounded before this is loaded.
const { runWorker } = await import('./worker.ts')
runWorker()
