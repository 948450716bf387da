/** Past usage for a simulation: each response of hours whose lines all survive, and sums of other hours. */

import { appendTo } from '../../formats/lists.ts'
import type { Mutable } from '../../formats/mutable.ts'
import { hourMs } from '../../formats/time.ts'
import type { TimeRange } from '../../formats/time-range.ts'
import { parseJournalLine } from '../../journal/journal-line.ts'
import { chargeParts, isCharged } from '../rules/amounts.ts'
import type { PastUsage, Spender } from '../rules/simulate.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import type { PastSums } from '../store.ts'
import type { KeptJournal } from './ledger-lines.ts'

interface PastOptions {
  /** Whole hours. */
  readonly span: TimeRange
  readonly rows: PastSums['rows']
  readonly kept: readonly KeptJournal[]
  readonly unusableUsage: UnusableUsage
  /** Maximum number of responses; more are an error. */
  readonly maxResponses: number
}

export class TooManyResponses extends Error {}

/** An hour is replayed from its lines if their number equals the ledger's number of responses. */
export async function readPastUsage(options: PastOptions) {
  const { rows } = options
  const spenders = createSpenders()
  const lines = await readLines(options, spenders)
  const answers = new Map<number, number>()
  for (const row of rows) answers.set(row.hour, (answers.get(row.hour) ?? 0) + row.answers)
  const usage: PastUsage[] = []
  /** Hours of which only sums are known, in order; adjacent ones are merged. */
  const summed: Mutable<TimeRange>[] = []
  for (const [hour, count] of answers) {
    const whole = lines.get(hour) ?? []
    if (whole.length === count) {
      for (const each of whole) usage.push(each)
      continue
    }
    const last = summed.at(-1)
    if (last?.to === hour) last.to += hourMs
    else summed.push({ from: hour, to: hour + hourMs })
  }
  const isSummed = (hour: number) => summed.some(({ from, to }) => hour >= from && hour < to)
  for (const { hour, user, subscription, model, answers: count, total } of rows) {
    if (count === 0 || !isSummed(hour)) continue
    const spender = spenders(user, subscription, model)
    const times = { startedAt: hour, endedAt: hour + hourMs - 1 }
    usage.push({ spender, ...times, tokens: total, answers: count })
  }
  return { usage, summed }
}

/** Responses by the hour in which they ended. */
async function readLines(
  { span, kept, unusableUsage, maxResponses }: PastOptions,
  spenders: ReturnType<typeof createSpenders>,
) {
  const found = new Map<number, PastUsage[]>()
  let count = 0
  for (const { files } of kept) {
    for await (const { lines } of files) {
      for await (const text of lines) {
        const line = parseJournalLine(text, unusableUsage)
        if (line?.charge === undefined) continue
        const { usage, charge, startedAt } = line
        const { endedAt } = usage.response
        if (endedAt < span.from || endedAt >= span.to) continue
        if (!isCharged(usage, charge)) continue
        count += 1
        if (count > maxResponses) throw new TooManyResponses()
        const spender = spenders(usage.user, usage.subscription, usage.model, usage.pool)
        appendTo(found, endedAt - (endedAt % hourMs), {
          spender,
          startedAt,
          endedAt,
          tokens: charge.tokens ?? 0,
          parts: chargeParts(usage, charge),
        })
      }
    }
  }
  return found
}

/** The function returns one object for equal arguments. */
function createSpenders() {
  const known = new Map<string, Spender>()
  return (user: string, subscription: string, model: string, pool?: string): Spender => {
    const name = JSON.stringify([model, subscription, user, pool])
    const spender = known.get(name) ?? {
      ...{ user, subscription, model },
      ...(pool !== undefined && { pool }),
    }
    known.set(name, spender)
    return spender
  }
}
