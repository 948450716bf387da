/** What a bench has measured, run by run: the content of its JSON file. */

import type { LoadResult } from './load/plan.ts'
import type { Inside } from './probe.ts'

/** `closed`: each connection sends as soon as it was answered. `open`: so many a second, come what may. */
export type Mode = 'closed' | 'open'

/** One run. CPU is that of all threads of a process, in microseconds for each answer; NaN where unknown. */
export interface Run extends LoadResult {
  readonly envoyMicros: number
  /** Of what Envoy asks; NaN where there is nothing. */
  readonly serviceMicros: number
  /** Resident memory after the run. */
  readonly envoyBytes: number
  readonly serviceBytes: number
  readonly inside?: Inside
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
  readonly about: About
  readonly series: readonly Series[]
}

/** Where, when and how it was measured. */
export interface About {
  /** Of this form. */
  readonly version: 1
  readonly at: string
  readonly node: string
  readonly processor: string
  readonly cores: number
  /** Of the last minute, before and after: what else the machine did. */
  readonly loadBefore: number
  readonly loadAfter: number
  readonly rounds: number
  readonly runMs: number
  readonly connections: number
  readonly perSecond: number
  readonly envoyThreads: number
  /** undefined: it was all started here. */
  readonly target?: string | undefined
}

/** The subjects in the order in which they were measured. */
export function subjectsOf({ series }: Results): readonly string[] {
  return [...new Set(series.map(({ subject }) => subject))]
}

/** The cases in the order of the table. */
export function casesOf({ series }: Results): readonly string[] {
  return [...new Set(series.map((one) => one.case))]
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
