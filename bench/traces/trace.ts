/**
 * Made-up requests of four users of one model, ordered by time. Sizes, lengths and gaps are chosen to
 * look like four kinds of traffic; none is recorded, so figures say how policies compare, not what a
 * fleet will see.
 *
 * | kind | requests |
 * |---|---|
 * | chat | 40 a minute and user; 300 tokens in, 250 out; 60 % set no maximum, the others 1024 to 4096 |
 * | agent | 20 a minute; 32,000 in, 600 out, one in 25 writes 5,000; maxima of 8192 to 32000 |
 * | batch | bursts of 50 to 500 at once, 30 an hour; 900 in, 350 out; outputs of a burst are alike |
 * | slow | as chat, five times as long, at 9 tokens a second: streams that outlive a window |
 *
 * Of all, 10 % are cut off by the client, 3 % report no usage, 2 % fail before they are answered.
 */

import { createDraw, type Draw } from './random.ts'

export const kinds = ['chat', 'agent', 'batch', 'slow'] as const
export type Kind = (typeof kinds)[number]

export interface TracedRequest {
  /** Seconds from the beginning. */
  readonly at: number
  readonly user: number
  readonly bytes: number
  /** Undefined if the client sets none. */
  readonly maxOutput: number | undefined
  readonly input: number
  /** Tokens that the model would write. */
  readonly output: number
  /** The part of the output after which the client hangs up; 1 for most. */
  readonly part: number
  readonly fate: 'whole' | 'no_usage' | 'failed'
  /** Seconds to the first token, and tokens per second after it. */
  readonly firstTokenS: number
  readonly tokensPerS: number
}

export interface Trace {
  readonly requests: readonly TracedRequest[]
  readonly windowS: number
  /** Tokens per window and user, of which the users want `load` times as many. */
  readonly limit: number
}

export const users = 4
/** The most output of the model. */
export const modelMax = 16_384
const windows: Readonly<Record<Kind, number>> = { chat: 60, agent: 60, batch: 600, slow: 60 }

/** `load` is the demand, as a multiple of the limit. */
export function makeTrace(kind: Kind, seed: number, load: number, minutes = 90): Trace {
  const draw = createDraw(seed * 1_000 + kinds.indexOf(kind))
  const requests = Array.from({ length: users }, (_, user) => requestsOf(kind, user, minutes, draw))
    .flat()
    .sort((a, b) => a.at - b.at)
  const wanted = requests
    .filter(({ fate }) => fate !== 'failed')
    .reduce((sum, { input, output, part }) => sum + input + output * part, 0)
  const windowS = windows[kind]
  return {
    requests,
    windowS,
    limit: Math.floor((wanted * windowS) / (users * minutes * 60 * load)),
  }
}

function requestsOf(kind: Kind, user: number, minutes: number, draw: Draw): TracedRequest[] {
  const perMinute = { chat: 40, agent: 20, batch: 0.5, slow: 40 }[kind]
  const requests: TracedRequest[] = []
  for (let at = 0; ; ) {
    at += (-Math.log(1 - draw.uniform()) * 60) / perMinute
    if (at >= minutes * 60) return requests
    const count = kind === 'batch' ? 50 + Math.floor(draw.uniform() * 451) : 1
    const alike = draw.around(1, 0.5)
    for (let i = 0; i < count; i += 1) {
      requests.push(makeRequest(kind, at + draw.uniform() / 4, user, alike, draw))
    }
  }
}

function makeRequest(kind: Kind, at: number, user: number, alike: number, draw: Draw) {
  const { input, output, maxOutput, bytesPerToken } = sizesOf(kind, alike, draw)
  const fate = draw.oneOf([
    [0.03, 'no_usage'],
    [0.02, 'failed'],
    [0.95, 'whole'],
  ] as const)
  return {
    ...{ at, user, maxOutput, fate },
    input: Math.max(1, Math.round(input)),
    output: Math.max(1, Math.min(Math.round(output), maxOutput ?? modelMax)),
    bytes: Math.round(input * bytesPerToken * draw.around(1, 0.12)),
    part: draw.uniform() < 0.1 ? draw.uniform() : 1,
    firstTokenS: 0.2 + input / 25_000 - 0.2 * Math.log(1 - draw.uniform()),
    tokensPerS:
      kind === 'slow'
        ? Math.min(20, Math.max(4, draw.around(9, 0.4)))
        : Math.min(150, Math.max(8, draw.around(45, 0.4))),
  }
}

function sizesOf(kind: Kind, alike: number, draw: Draw) {
  if (kind === 'agent') {
    const isLong = draw.uniform() < 0.04
    return {
      input: Math.min(100_000, Math.max(10_000, draw.around(32_000, 0.6))),
      output: isLong ? draw.around(5_000, 0.5) : draw.around(600, 0.7),
      maxOutput: draw.oneOf([
        [0.4, 8_192],
        [0.2, 16_384],
        [0.4, 32_000],
      ]),
      bytesPerToken: 3.6,
    }
  }
  if (kind === 'batch') {
    return {
      input: draw.around(900, 0.4),
      output: draw.around(350, 0.5) * alike,
      maxOutput: draw.uniform() < 0.8 ? 2_048 : undefined,
      bytesPerToken: 4.6,
    }
  }
  return {
    input: draw.around(300, 0.8),
    output: draw.around(250, 0.9) * (kind === 'slow' ? 5 : 1),
    maxOutput: draw.oneOf<number | undefined>([
      [0.6, undefined],
      [0.1, 1_024],
      [0.15, 2_048],
      [0.15, 4_096],
    ]),
    bytesPerToken: 4.3,
  }
}
