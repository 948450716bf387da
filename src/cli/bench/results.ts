/** What a bench has measured, run by run: the content of its JSON file. */

import type { LoadResult } from './load/plan.ts'

/** `closed`: each connection sends as soon as it was answered. `open`: so many a second, come what may. */
export type Mode = 'closed' | 'open'

/** One run. CPU is that of all threads of a process, in microseconds for each answer; NaN where unknown. */
export interface Run extends LoadResult {
  readonly envoyMicros: number
  /** Of what Envoy asks; NaN where there is nothing. */
  readonly serviceMicros: number
}

/** The runs of one kind of request against one subject. */
export interface Series {
  /** Of cases.ts. */
  readonly case: string
  readonly mode: Mode
  readonly subject: string
  readonly runs: readonly Run[]
}

export interface Results {
  readonly series: readonly Series[]
}

/** The runs of one series; none where it was not measured. */
export function runsOf(
  { series }: Results,
  name: string,
  mode: Mode,
  subject: string,
): readonly Run[] {
  return (
    series.find((one) => one.case === name && one.mode === mode && one.subject === subject)?.runs ??
    []
  )
}

export function perSecond({ answered, tookMs }: Pick<Run, 'answered' | 'tookMs'>): number {
  return (answered * 1_000) / tookMs
}
