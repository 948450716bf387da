/** Simulates resources over past usage, in a thread of its own, so that no Check waits for it. */

import { ServiceError } from '../../formats/errors.ts'
import type { TimeRange } from '../../formats/time-range.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { runInThread } from '../../runtime/run-in-thread.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import type { PastSums } from '../store.ts'
import type { KeptPlaces } from './ledger-lines.ts'
import type { SimulationResult, SimulationTask } from './simulation-worker.ts'

const worker = new URL('./simulation-worker.ts', import.meta.url)
/** Below the gateway's timeout of 35 seconds. */
const deadlineMs = 20_000
/** Maximum number of responses, of about 200 bytes each; a pod has memory for them beside a million keys. */
const maxResponses = 500_000
const maxRows = 200_000
const resourceLimits = { maxOldGenerationSizeMb: 192 }

/** Undefined if there is no ledger. */
export type Simulate = ReturnType<typeof createSimulator>

/**
 * The function returns the result for the documents of a text, or their problems. Undefined if there is no journal,
 * hence no past usage. Rejects with `usage_timeout` if a simulation takes too long or too much memory. `admissionMode`:
 * that of Subscriptions that set none.
 */
export function createSimulator(
  kept: KeptPlaces,
  unusableUsage: UnusableUsage,
  readSums: (from: number, to: number, maxRows: number) => Promise<PastSums>,
  admissionMode?: Snapshot['admissionMode'],
) {
  if (kept.path === undefined) return undefined
  return async (text: string, span: TimeRange) => {
    const sums = await readSums(span.from, span.to, maxRows)
    const result = await run({
      ...kept,
      ...{ text, span, sums, unusableUsage, admissionMode, maxResponses },
    })
    if ('isTooMuch' in result) throw new ServiceError('usage_timeout')
    if ('refused' in result) return result
    const refusedThen = sums.rows.reduce((sum, { refusals }) => sum + refusals, 0)
    return { ...result, refusedThen, gaps: sums.gaps }
  }
}

async function run(task: SimulationTask): Promise<SimulationResult> {
  const signal = AbortSignal.timeout(deadlineMs)
  try {
    return await runInThread(worker, task, { resourceLimits, signal })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const isTooMuch = signal.aborted || code === 'ERR_WORKER_OUT_OF_MEMORY'
    throw isTooMuch ? new ServiceError('usage_timeout', { cause: error }) : error
  }
}
