import type { JournalLine } from '../../src/journal/journal-line.ts'
import { nothingReported, type Usage } from '../../src/usage/rules/usage.ts'

/** A line of a metered response of 40 tokens to ada that has ended well. */
export function endedLine({
  usage = {},
  ...more
}: Partial<Omit<JournalLine, 'usage'>> & { readonly usage?: Partial<Usage> } = {}): JournalLine {
  const response = { id: 'a', endedAt: 1_000_040 }
  return {
    ...{ state: 'ended', isMetered: true, by: 'check', startedAt: 1_000_000, firstByteMs: 10 },
    ...{ flags: '', details: 'via_upstream', isSent: true, transport: '', failure: undefined },
    ...{ lane: undefined, charge: undefined },
    usage: {
      ...{ user: 'ada', subscription: 'basic', model: 'llm/small', status: 200, bytes: 1_001 },
      ...{ reported: reportedTotal(40), response },
      ...usage,
    } as JournalLine['usage'],
    ...more,
  }
}

export function reportedTotal(tokens: unknown): Usage['reported'] {
  return tokens === undefined ? nothingReported : new Map([['total_tokens', tokens]])
}
