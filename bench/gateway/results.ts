/** The results of a bench, run by run: the content of its JSON file. */

import type { Burst } from './burst.ts'
import type { LoadResult } from './load/plan.ts'
import type { Inside } from './probe.ts'

/** `closed`: each connection sends again after a response. `open`: a fixed number per second. */
export type Mode = 'closed' | 'open'

/** One run. CPU includes all threads of a process, in microseconds per response; NaN if unknown. */
export interface Run extends LoadResult {
  readonly envoyMicros: number
  /** CPU of the server that Envoy calls; NaN if there is none. */
  readonly serviceMicros: number
  /** Resident memory after the run. */
  readonly envoyBytes: number
  readonly serviceBytes: number
  readonly inside?: Inside
}

/** The runs of one kind of request against one subject. */
export interface Series {
  /** A case of cases.ts. */
  readonly case: string
  readonly mode: Mode
  readonly subject: string
  readonly runs: readonly Run[]
}

export interface Results {
  readonly about: About
  readonly series: readonly Series[]
  /** Undefined if it was not measured, or by an older version. */
  readonly bursts?: readonly Burst[] | undefined
}

/** Conditions of the measurement. */
export interface About {
  /** Version of this format. */
  readonly version: 1
  readonly at: string
  readonly node: string
  readonly processor: string
  readonly cores: number
  /** Load average of the last minute, before and after: other work of the machine. */
  readonly loadBefore: number
  readonly loadAfter: number
  readonly rounds: number
  readonly runMs: number
  readonly connections: number
  readonly perSecond: number
  readonly envoyThreads: number
  /** Undefined if the gateway was started here. */
  readonly target?: string | undefined
}

/** The subjects in the order of measurement. */
export function subjectsOf({ series }: Results): readonly string[] {
  return [...new Set(series.map(({ subject }) => subject))]
}

/** The cases in the order of the table. */
export function casesOf({ series }: Results): readonly string[] {
  return [...new Set(series.map((one) => one.case))]
}

/** The runs of one series; empty if it was not measured. */
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
