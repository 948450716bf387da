/** The program of a worker, which workers.ts starts. */

import { boundHeap } from '../../cli/heap.ts'

boundHeap()
// Its heap is bounded before it is loaded.
const { runWorker } = await import('./worker.ts')
runWorker()
