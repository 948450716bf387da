/** What a request holds of its limits until its response is counted: the same from Check to the head of its line. */

import type { Counter, CounterState } from './counter.ts'
import type { Expected, RequestSize } from './estimates/estimator.ts'
import type { Factors } from './estimates/hold.ts'
import type { Estimate } from './unreported.ts'

/** A counter with its limit; `factors`: what it counts of tokens, if not these themselves. */
export interface HeldCounter extends Required<Counter> {
  readonly factors?: Factors | undefined
}

/** What a request asks for. */
export interface Hold extends RequestSize {
  /** The gateway's request id; undefined: only decide, hold nothing. */
  readonly id: string | undefined
  /** Identifies the attempt, of several for one request, so that only its result is undone; without spaces and colons. */
  readonly asker?: string | undefined
  /** Milliseconds since the epoch. */
  readonly admittedAt: number
  /** Those of limits on tokens, or on what these amount to, all of which must have room. */
  readonly counters: readonly HeldCounter[]
  /** Those of limits on requests, in which it is one; those with windows of 0 ms are of concurrency. */
  readonly requestCounters?: readonly Required<Counter>[]
  readonly expected: Expected
  /** The share of a limit by which the ceilings of all open requests may exceed it. */
  readonly overshoot: number
  /** Whether the request can be given a ceiling. */
  readonly canLimitOutput: boolean
  /**
   * Of tokens. `admission`: it binds the windows of this instant. `end`: it binds every window until it is
   * released. One of requests binds the window of this instant, of concurrency there is none.
   */
  readonly charge: 'admission' | 'end'
  /** What is charged if the model reports less; undefined: what it reports. */
  readonly estimate: Estimate | undefined
}

/** What is held, as the response and its line have it. `admittedAt` 0: nothing. */
export interface Held
  extends Pick<Hold, 'bytes' | 'maxOutput' | 'choices' | 'admittedAt' | 'estimate'> {
  /** The output tokens that it may have; Infinity: no ceiling was set. */
  readonly ceiling: number
}

/** The result of a store of holds. */
export interface HoldAnswer {
  readonly outcome: 'held' | 'busy' | 'spent'
  /** If held: the output tokens that it may have; Infinity: no ceiling. */
  readonly ceiling: number
  /** If busy: the open requests of the counter that has most of them. */
  readonly open?: number
  /**
   * The windows at that instant in the order of the counters, then of those of requests, with this hold. Of these
   * `used` has the open requests, too.
   */
  readonly windows: readonly CounterState[]
}

/** Of a request that needs no tokens, and only reads. */
export const noTokens: Hold = {
  id: undefined,
  admittedAt: 0,
  counters: [],
  overshoot: 0,
  canLimitOutput: false,
  charge: 'end',
  bytes: undefined,
  maxOutput: undefined,
  choices: undefined,
  estimate: undefined,
  expected: {
    input: 0,
    inputVariance: 0,
    output: 0,
    outputVariance: 0,
    floor: 0,
    beyondRoom: 0,
    isSeveral: false,
    least: 0,
    worst: 0,
  },
}
