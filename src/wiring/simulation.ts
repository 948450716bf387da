/** Simulates resources over past usage, in a thread of its own: Checks wait for none of it. */

import type { Simulate } from '../admin/usage/simulate.ts'
import { ServiceError } from '../core/decision/errors.ts'
import { askThread } from '../runtime/ask-thread.ts'
import type { Config } from '../settings/config.ts'
import { readPastSums } from '../store/usage/state.ts'
import type { Database } from './database.ts'
import type { SimulationResult, SimulationTask } from './simulation-worker.ts'

const worker = new URL('./simulation-worker.ts', import.meta.url)
/** The gateway waits for 35 seconds. */
const deadlineMs = 20_000
/** About 200 bytes each; a pod has memory for them beside a million keys. */
const maxAnswers = 500_000
const maxRows = 200_000
const resourceLimits = { maxOldGenerationSizeMb: 192 }

/** undefined: there is no journal, and so no past usage. */
export function openSimulation(
  config: Pick<Config, 'usageJournal' | 'usageArchiveDir' | 'unusableUsage'>,
  { pool }: Pick<Database, 'pool'>,
): Simulate | undefined {
  const { usageJournal: path, usageArchiveDir: folder, unusableUsage } = config
  if (path === undefined) return undefined
  return async (text, span) => {
    const sums = await readPastSums(pool, span.from, span.to, maxRows)
    const task = { text, span, sums, path, folder, unusableUsage, maxAnswers }
    const result = await runElsewhere(task)
    if ('isTooMuch' in result) throw new ServiceError('usage_timeout')
    if ('refused' in result) return result
    const refusedThen = sums.rows.reduce((sum, { refusals }) => sum + refusals, 0)
    return { ...result, refusedThen, gaps: sums.gaps }
  }
}

/** Rejects with `usage_timeout` if it takes too long or too much memory. */
async function runElsewhere(task: SimulationTask): Promise<SimulationResult> {
  const signal = AbortSignal.timeout(deadlineMs)
  try {
    return await askThread(worker, task, { resourceLimits, signal })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const isTooMuch = signal.aborted || code === 'ERR_WORKER_OUT_OF_MEMORY'
    throw isTooMuch ? new ServiceError('usage_timeout', { cause: error }) : error
  }
}
