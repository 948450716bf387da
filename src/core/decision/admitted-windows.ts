/**
 * The windows that admitted a request. Check hands their ends on, so that whoever is told of the response
 * knows whether it is still charged in them, whatever it knows of the counters.
 */

import type { Counter, LimitState } from './counter.ts'

/** One for each limit of tokens, in their order; `endsAt` in milliseconds since the epoch. */
export type AdmittedWindows = readonly {
  readonly windowMs: number
  readonly endsAt: number
}[]

/** As they are in Check's metadata. */
export function toWindowsText(states: readonly LimitState[]): string {
  let text = ''
  for (const { limit, resetsAt } of states) {
    if (limit.kind !== 'tokens') continue
    text += text === '' ? `${limit.windowMs}:${resetsAt}` : ` ${limit.windowMs}:${resetsAt}`
  }
  return text
}

export function parseWindows(text: unknown): AdmittedWindows | undefined {
  if (typeof text !== 'string' || !/^\d{1,15}:\d{1,15}( \d{1,15}:\d{1,15})*$/.test(text)) {
    return undefined
  }
  return text.split(' ').map((each) => {
    const [windowMs = 0, endsAt = 0] = each.split(':').map(Number)
    return { windowMs, endsAt }
  })
}

/** Those of the counters whose windows are not over; also those that the request was not admitted by. */
export function stillOpen(
  windows: AdmittedWindows,
  counters: readonly Counter[],
  now: number,
): readonly Counter[] {
  const left = [...windows]
  return counters.filter(({ windowMs }) => {
    const at = left.findIndex((each) => each.windowMs === windowMs)
    const [found] = at < 0 ? [] : left.splice(at, 1)
    return found === undefined || now < found.endsAt
  })
}
