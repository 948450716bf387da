/** The hold of a request, from Check until its response is counted; it is also in the head of its line. */

import type { Counter, CounterState } from './counter.ts'
import type { Expectation, RequestSize } from './estimates/estimator.ts'
import type { Factors } from './estimates/held-amounts.ts'
import type { Estimate } from './unreported.ts'

/** A counter with its limit; `factors`: how the limit weights tokens, or undefined if it counts them as they are. */
export interface HeldCounter extends Required<Counter> {
  readonly factors?: Factors | undefined
}

/** A request's demand on its limits. */
export interface Hold extends RequestSize {
  /** The gateway's request id, or undefined to decide without holding anything. */
  readonly id: string | undefined
  /** Identifies one of several attempts of a request, so that only its grant is undone; without spaces and colons. */
  readonly asker?: string | undefined
  /** Milliseconds since the epoch. */
  readonly admittedAt: number
  /** Counters of limits on tokens or on amounts computed from tokens; all must have room. */
  readonly counters: readonly HeldCounter[]
  /**
   * Counters of limits on requests, of which the request takes one each; counters with windows of 0 ms are for
   * concurrency.
   */
  readonly requestCounters?: readonly Required<Counter>[]
  readonly expected: Expectation
  /** The share of a limit by which the ceilings of all requests in progress may exceed it. */
  readonly overshoot: number
  /** Whether the gateway can set a ceiling in the request. */
  readonly canLimitOutput: boolean
  /**
   * For tokens. `admission`: the hold binds the windows of this instant. `end`: it binds every window until it is
   * released. A hold of requests binds the window of this instant; concurrency has no windows.
   */
  readonly charge: 'admission' | 'end'
  /** What is charged if the model reports less, or undefined if its report counts as it is. */
  readonly estimate: Estimate | undefined
}

/** A hold, as in the response of Check and in the line. `admittedAt` is 0 if nothing is held. */
export interface HoldRecord
  extends Pick<Hold, 'bytes' | 'maxOutput' | 'choices' | 'admittedAt' | 'estimate'> {
  /** Maximum number of output tokens, or Infinity if no ceiling was set. */
  readonly ceiling: number
}

/** The result of a hold store. */
export interface HoldResult {
  readonly outcome: 'held' | 'busy' | 'spent'
  /** If held: the maximum number of output tokens, or Infinity without a ceiling. */
  readonly ceiling: number
  /** If busy: the open requests of the counter with the most. */
  readonly open?: number
  /**
   * The windows at that instant, with this hold, in the order of `counters`, then of `requestCounters`. For the latter,
   * `used` includes open requests.
   */
  readonly windows: readonly CounterState[]
}

/**
 * How long a hold, or a place in a limit on concurrency, lasts after the gateway's request for it or its last report
 * that the request runs, in milliseconds. The gateway reports every 10 s, also before the first byte of a response, and
 * some reports may be lost: with a process, or while a shared store does not respond.
 */
export const holdLeaseMs = 60_000

/** The hold of a request that needs no tokens and only reads. */
export const emptyHold: Hold = {
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
