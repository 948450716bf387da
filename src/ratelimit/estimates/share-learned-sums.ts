/**
 * Persists the sums of estimators, and shares them between processes: every few seconds each process adds its latest
 * observations to the database, and loads the sums of all. During an outage of the database, estimators continue with
 * the sums that they have.
 */

import { ServiceError } from '../../formats/errors.ts'
import { repeat } from '../../runtime/loop.ts'
import type { Sql } from '../../store/postgres/sql.ts'
import type { SumsDelta } from '../rules/estimates/decaying-sums.ts'
import type { Estimators } from '../rules/estimates/estimators.ts'
import {
  addLearnedSums,
  type LearnedPart,
  type LearnedRow,
  learnedPageRows,
  purgeLearnedSums,
  readLearnedSums,
} from './postgres-learned-sums.ts'

interface LearnedDeps {
  readonly sql: Sql
  readonly estimators: Estimators
  /** Whether anything is estimated; otherwise the database is not used. */
  readonly isNeeded: () => boolean
  /** Called with failures other than an outage of the database, after which the exchange is repeated. */
  readonly onFault: (error: unknown) => void
  /** Milliseconds between two exchanges. */
  readonly everyMs?: number
}

const defaultEveryMs = 10_000
/** Maximum number of estimator parts that one statement adds. */
const maxAdded = 250
/** How late a statement may become visible to others, in milliseconds. */
const lateMs = 5_000
/** Exchanges between two deletions of obsolete rows. */
const purgeEvery = 360

/** `stop` shares the rest, if the database responds. */
export function shareLearnedSums(deps: LearnedDeps): { readonly stop: () => Promise<void> } {
  const { sql, estimators, everyMs = defaultEveryMs } = deps
  const closing = new AbortController()
  const { signal } = closing
  let last: Omit<LearnedRow, 'sums'> | undefined
  let exchanges = 0

  /** Adds each part once, so that it ends while others are observed. */
  async function add(): Promise<void> {
    let taken: Taken[] = []
    for (const { owner, model, estimator } of [...estimators.all()]) {
      for (const [part, sums] of estimator.parts()) {
        const delta = sums.take()
        if (delta === undefined) continue
        taken.push({ owner, model, part, delta, settle: () => sums.settle() })
        if (taken.length < maxAdded) continue
        await share(taken)
        taken = []
      }
    }
    if (taken.length > 0) await share(taken)
  }

  async function share(taken: readonly Taken[]): Promise<void> {
    try {
      await addLearnedSums(sql, taken)
    } catch (error) {
      if (error instanceof ServiceError) throw error
      // A failure with one part does not prevent sharing the others.
      const half = taken.length >> 1
      if (half === 0) return void deps.onFault(error)
      await share(taken.slice(0, half))
      await share(taken.slice(half))
      return
    }
    for (const { settle } of taken) settle()
  }

  async function takeOver(): Promise<void> {
    let overlapMs = lateMs
    // The first load evicts earlier rows for later ones; after it, users of other processes evict none of this
    // process's.
    const { of, ifRoom } = estimators
    const known = last === undefined ? of : ifRoom
    for (;;) {
      const rows = await readLearnedSums(sql, last, overlapMs)
      overlapMs = 0
      for (const { owner, model, part, sums } of rows) {
        known(owner, model)?.replace(part, Float64Array.from(sums))
      }
      const end = rows.at(-1)
      if (end === undefined) return
      const { sums, ...place } = end
      last = place
      if (rows.length < learnedPageRows) return
    }
  }

  async function exchange(): Promise<void> {
    if (!deps.isNeeded()) return
    await add()
    await takeOver()
    if (exchanges % purgeEvery === 0) await purgeLearnedSums(sql)
    exchanges += 1
  }

  function onFault(error: unknown): void {
    if (!(error instanceof ServiceError)) deps.onFault(error)
  }

  const ended = repeat({ step: exchange, restMs: everyMs, onFault, signal })
  return {
    async stop() {
      closing.abort()
      await ended
      await add().catch(onFault)
    },
  }
}

interface Taken extends LearnedPart {
  readonly delta: SumsDelta
  readonly settle: () => void
}
