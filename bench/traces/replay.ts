/**
 * Replays a trace against a policy with a clock of its own: windows that open with the first admission, holds until the
 * response ends, usage in the window that admitted the request. As the gateway reports the output of each stream so
 * far, holds of estimates grow here.
 */

import { type Admission, admitRequest, fits } from '../../src/ratelimit/rules/estimates/admit.ts'
import {
  createEstimator,
  type Estimator,
  type Expectation,
} from '../../src/ratelimit/rules/estimates/estimator.ts'
import {
  growHold,
  type HeldAmount,
  type HeldSums,
  noHolds,
  withHold,
} from '../../src/ratelimit/rules/estimates/held-amounts.ts'
import { modelMax, type Trace, type TracedRequest, users } from './trace.ts'

/** Decides by the same figures as the service. */
export type Policy = (
  room: { readonly limit: number; readonly used: number; readonly held: HeldSums },
  expected: Expectation,
  request: TracedRequest,
) => Admission

export interface Outcome {
  readonly requests: number
  /** The true tokens of each window beyond the limit, in percent of it. */
  readonly overP99: number
  readonly overMax: number
  /** Requests that were refused and would have fitted, seen from the end, percent of all. */
  readonly falsePercent: number
  readonly refusedPercent: number
  /** The used part of the limit in windows that were followed by another, in percent. */
  readonly utilisation: number
  /** Answers that a ceiling cut short, percent of those admitted. */
  readonly cutPercent: number
  /** The most by which used and ceilings together passed the bound; 0 or less if it held. */
  readonly beyondBound: number
}

/** Between two reports of what a stream has sent. */
const followEveryS = 10

interface Window {
  readonly endsAt: number
  used: number
  true: number
  held: HeldSums
}

interface Refusal {
  readonly at: number
  readonly window: Window | undefined
  readonly need: number
}

export function hold(mean: number): Admission {
  const parts: HeldAmount = { mean, variance: 0, output: 0, most: mean }
  return { outcome: 'held', hold: parts, holds: [parts], ceiling: Number.POSITIVE_INFINITY }
}

/** Check, then count; a constant; the worst case; and ours at an overshoot (share of the limit). */
export const policies = {
  count: (): Policy => (room) => (room.used < room.limit ? hold(0) : { outcome: 'spent' }),
  constant: (): Policy => (room) => plain(room, 5_000),
  worst:
    (): Policy =>
    (room, { input, worst }) =>
      plain(room, Math.ceil(input) + worst),
  ours:
    (overshoot: number): Policy =>
    (room, expected) =>
      admitRequest([room], expected, overshoot, true),
}

/** Admits a request if the sum of all holds fits, or if it is the only one. */
function plain(room: Parameters<Policy>[0], mean: number): Admission {
  if (room.used >= room.limit) return { outcome: 'spent' }
  const asked = hold(mean) as Extract<Admission, { outcome: 'held' }>
  return room.held.count === 0 || fits(room, asked.hold, 0) ? asked : { outcome: 'busy' }
}

/** From and to, in seconds since the beginning. */
export type Span = readonly [number, number]

/** Only requests of a span are in the percentages of refusals. */
export function replay(
  trace: Trace,
  policy: Policy,
  overshoot = 0,
  judged: Span = [0, Number.POSITIVE_INFINITY],
): Outcome {
  const { limit, windowS, requests } = trace
  const estimator = createEstimator()
  const windows: Window[][] = Array.from({ length: users }, () => [])
  const events: { readonly at: number; readonly run: () => void }[] = []
  const refusals: Refusal[] = []
  let admitted = 0
  let cuts = 0
  let beyondBound = Number.NEGATIVE_INFINITY

  function windowAt(user: number, at: number): Window | undefined {
    const last = windows[user]?.at(-1)
    return last !== undefined && at < last.endsAt ? last : undefined
  }

  function start(request: TracedRequest): void {
    const { at, user, bytes, maxOutput, input, fate } = request
    const open = windowAt(user, at)
    const expected = estimator.expect({ bytes, maxOutput }, modelMax)
    const { used = 0, held = noHolds } = open ?? {}
    const decided = policy({ limit, used, held }, expected, request)
    if (decided.outcome !== 'held') {
      const need = fate === 'failed' ? 0 : input + request.output * request.part
      refusals.push({ at, window: open, need })
      return
    }
    admitted += 1
    const window = open ?? { endsAt: at + windowS, used: 0, true: 0, held: noHolds }
    if (open === undefined) windows[user]?.push(window)
    const isAlone = held.count === 0
    window.held = withHold(held, decided.hold, 1)
    const promised = Math.floor(limit * (1 + overshoot))
    if (!isAlone) beyondBound = Math.max(beyondBound, used + window.held.most - promised)
    const { ceiling } = decided
    const isCut = request.output > ceiling
    if (isCut) cuts += 1
    const whole = Math.min(request.output, ceiling)
    const output = fate === 'failed' ? 0 : Math.max(1, Math.round(whole * request.part))
    const tookS = request.firstTokenS + output / request.tokensPerS
    let own = decided.hold
    // Constants expect no output that could grow.
    for (let afterS = followEveryS; own.output > 0 && afterS < tookS; afterS += followEveryS) {
      insert(events, { at: at + afterS, run: () => follow(afterS) })
    }
    function follow(afterS: number): void {
      const seen = Math.max(0, (afterS - request.firstTokenS) * request.tokensPerS)
      const after = growHold(own, estimator.expectMore({ bytes, maxOutput }, seen, ceiling))
      window.held = withHold(withHold(window.held, own, -1), after, 1)
      own = after
    }
    const run = () => {
      window.held = withHold(window.held, own, -1)
      settle(window, request, output, { isCut, estimator, expected })
    }
    insert(events, { at: at + tookS, run })
  }

  for (const request of requests) {
    while ((events.at(-1)?.at ?? Number.POSITIVE_INFINITY) <= request.at) events.pop()?.run()
    start(request)
  }
  while (events.length > 0) events.pop()?.run()
  return score({ trace, judged, windows, refusals, admitted, cuts, beyondBound })
}

/** A response without usage is charged by its bytes: here by its true output and the estimated input. */
function settle(
  window: Window,
  { bytes, maxOutput, input, part, fate }: TracedRequest,
  output: number,
  { isCut, estimator, expected }: { isCut: boolean; estimator: Estimator; expected: Expectation },
): void {
  if (fate === 'failed') return
  window.true += input + output
  window.used += output + (fate === 'no_usage' ? Math.round(expected.input) : input)
  if (fate === 'no_usage') return
  estimator.learn({ bytes, maxOutput, input, output, isCut: isCut || part < 1 })
}

/** Keeps the list ordered, the earliest last. */
function insert<T extends { readonly at: number }>(list: T[], item: T): void {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((list[middle] as T).at > item.at) low = middle + 1
    else high = middle
  }
  list.splice(low, 0, item)
}

function score(of: {
  readonly trace: Trace
  readonly judged: Span
  readonly windows: readonly (readonly Window[])[]
  readonly refusals: readonly Refusal[]
  readonly admitted: number
  readonly cuts: number
  readonly beyondBound: number
}): Outcome {
  const { trace, judged, admitted } = of
  const { limit } = trace
  const isJudged = ({ at }: { readonly at: number }) => at >= judged[0] && at < judged[1]
  const requests = trace.requests.filter(isJudged)
  const refusals = of.refusals.filter(isJudged)
  const over = of.windows
    .flat()
    .map((window) => Math.max(0, (100 * window.true) / limit - 100))
    .sort((a, b) => a - b)
  const followed = of.windows.flatMap((each) => each.slice(1, -1))
  const full = followed.map((window) => Math.min(1, window.true / limit))
  const left = new Map<Window, number>()
  let fitted = 0
  for (const { window, need } of refusals) {
    const room = window === undefined ? limit : (left.get(window) ?? limit - window.true)
    if (need > room) continue
    fitted += 1
    if (window !== undefined) left.set(window, room - need)
  }
  return {
    requests: requests.length,
    overP99: over[Math.floor(0.99 * (over.length - 1))] ?? 0,
    overMax: over.at(-1) ?? 0,
    falsePercent: (100 * fitted) / requests.length,
    refusedPercent: (100 * refusals.length) / requests.length,
    utilisation: (100 * full.reduce((sum, each) => sum + each, 0)) / Math.max(1, full.length),
    cutPercent: (100 * of.cuts) / Math.max(1, admitted),
    beyondBound: of.beyondBound,
  }
}
