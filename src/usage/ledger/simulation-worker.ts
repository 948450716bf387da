/** Runs in a thread of its own: replays past usage with the resources of a text, and returns the result. */

import { parentPort, workerData } from 'node:worker_threads'
import type { TimeRange } from '../../formats/time-range.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { loadDocuments } from '../../models/sources/pipeline.ts'
import { formatProblem } from '../../models/sources/resource-folder.ts'
import { type Simulation, simulate } from '../rules/simulate.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import type { PastSums } from '../store.ts'
import { findSurvivingLines, type KeptPlaces } from './ledger-lines.ts'
import { readPastUsage, TooManyResponses } from './past.ts'

export interface SimulationTask extends KeptPlaces {
  /** Documents of resources. */
  readonly text: string
  readonly span: TimeRange
  readonly sums: PastSums
  readonly unusableUsage: UnusableUsage
  readonly admissionMode: Snapshot['admissionMode'] | undefined
  readonly maxResponses: number
}

export type SimulationResult =
  /** The problems of the documents, one sentence each. */
  | { readonly refused: readonly string[] }
  | { readonly isTooMuch: true }
  | {
      readonly simulation: Simulation
      readonly summed: readonly TimeRange[]
      readonly problems: readonly string[]
    }

async function run(task: SimulationTask): Promise<SimulationResult> {
  const { text, span, sums, unusableUsage, admissionMode, maxResponses } = task
  const { snapshot, problems } = await loadDocuments(text, admissionMode)
  const errors = problems.filter(({ severity }) => severity === 'error')
  if (errors.length > 0) return { refused: errors.map(sentence) }
  // Problems of archives are ignored: hours with another number of lines are not replayed. `tollgate usage verify`
  // reports them.
  const kept = await findSurvivingLines(task, sums, span, () => {})
  try {
    const past = await readPastUsage({ span, rows: sums.rows, kept, unusableUsage, maxResponses })
    const simulation = simulate(past.usage, snapshot)
    return { simulation, summed: past.summed, problems: problems.map(sentence) }
  } catch (error) {
    if (error instanceof TooManyResponses) return { isTooMuch: true }
    throw error
  }
}

/** Shows a problem without the file, which a text does not have. */
function sentence(problem: Parameters<typeof formatProblem>[0]): string {
  return formatProblem(problem).replace(/^:(\d+): (error|warning): /, 'line $1: ')
}

parentPort?.postMessage(await run(workerData as SimulationTask))
