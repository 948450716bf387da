/** Recomputes the sums of a ledger from the lines of journals, and compares them. */

import { cutName } from '../../formats/bounded-text.ts'
import { addExact, type ExactInt, subtractExact } from '../../formats/exact.ts'
import { hourMs } from '../../formats/time.ts'
import type { TimeRange } from '../../formats/time-range.ts'
import { parseJournalLine } from '../../journal/journal-line.ts'
import type { UnusableUsage } from '../rules/usage.ts'
import {
  type LedgerState,
  type LimitGroup,
  type LimitRow,
  type UsageSums,
  usageFigures,
  type VerifiedSums,
} from '../store.ts'
import type { LineSource } from './journal-files.ts'
import type { KeptFile, KeptJournal } from './ledger-lines.ts'
import { createLimitSums } from './limit-sums.ts'
import { addCharge, addUsage, mergeRow } from './merge.ts'
import { comparedWindows } from './moved-windows.ts'
import { createUsageSums } from './sums.ts'

interface Difference {
  readonly group: Pick<VerifiedSums, 'hour' | 'user' | 'keyId' | 'model'>
  readonly figure: (typeof comparedFigures)[number]
  /** A cost is in nano-units, like `journals`. */
  readonly ledger: ExactInt
  readonly journals: ExactInt
}

/** A difference in the charge of a window of a limit by name. */
interface LimitDifference {
  readonly limit: LimitGroup
  readonly ledger: ExactInt
  readonly journals: ExactInt
}

export interface Verification {
  /** Ordered by hour. */
  readonly differences: readonly Difference[]
  /** Ordered by window. */
  readonly limits: readonly LimitDifference[]
  /**
   * What the ledger has beyond the lines of the hour before `completeFrom`, of which only some survive. The other lines
   * may be gone, or the ledger may be wrong. These do not count as differences.
   */
  readonly beyond: Pick<Verification, 'differences' | 'limits'>
  /** Number of sums that were compared, without those in `beyond`. */
  readonly compared: number
  /**
   * All lines of this hour (in milliseconds since the epoch) and later ones survive. For earlier hours only sums that
   * the ledger lacks are differences.
   */
  readonly completeFrom: number
  /** Journals that were read in that time and of which no lines survive. */
  readonly missing: readonly string[]
}

/** Whole hours. */
interface VerifyOptions extends TimeRange {
  readonly state: LedgerState
  readonly kept: readonly KeptJournal[]
  readonly unusableUsage: UnusableUsage
}

/** How far lines may be out of order. */
const latenessMs = 60_000
/** Maximum number of rows that are summed before they are merged under names that may be cut. */
const maxRows = 10_000

const figures = Object.keys(usageFigures) as (keyof UsageSums)[]
/** Weighted tokens, instead of their difference from plain ones: of negative figures the lower one has more lines. */
const comparedFigures = [
  ...figures.filter((figure) => figure !== 'weight'),
  'counted',
  'cost',
] as const

export async function verifyUsage(options: VerifyOptions): Promise<Verification> {
  const { state, kept, unusableUsage, from, to } = options
  const found = new Map<string, VerifiedSums>()
  const foundLimits = new Map<string, LimitRow>()
  const sums = createUsageSums()
  const limitSums = createLimitSums(options)
  const merge = (): void => {
    for (const row of limitSums.drain()) {
      mergeLimit(foundLimits, { ...row, resource: cutName(row.resource), whom: cutName(row.whom) })
    }
    for (const row of sums.drain()) {
      const [user, keyId, model] = [cutName(row.user), cutName(row.keyId), cutName(row.model)]
      const cut = { ...row, user, keyId, model, cost: row.cost ?? 0 }
      mergeRow(found, nameOf(cut), cut, addUsage)
    }
  }
  /**
   * Adds the file's lines of this time. Returns when its first readable line was written, even if outside of this time.
   */
  async function readFile({ lines }: KeptFile): Promise<number | undefined> {
    let begin: number | undefined
    for await (const text of lines) {
      const line = parseJournalLine(text, unusableUsage)
      if (line === undefined) continue
      const { usage, charge } = line
      const { endedAt } = usage.response
      begin ??= endedAt
      if (charge !== undefined && endedAt >= from && endedAt < to) {
        sums.add(usage, charge, endedAt)
      }
      limitSums.add(line, endedAt)
      if (sums.size + limitSums.size >= maxRows) merge()
    }
    merge()
    return begin
  }
  let completeFrom = from
  for (const { files } of kept) {
    const begins = new Map<LineSource, number>()
    for await (const file of files) {
      const begin = await readFile(file)
      // If Envoy has only its current file, it has lost no lines, however late they begin: Envoy often has little to write.
      const isWhole = file.source === 'envoy' && file.isCurrent && begins.size > 0
      if (begin !== undefined && !isWhole && !begins.has(file.source))
        begins.set(file.source, begin)
    }
    // The first hour may have begun in a file that was removed, so it is not complete.
    const begin = begins.size === 0 ? to : Math.max(...begins.values())
    const whole = Math.ceil((begin + latenessMs) / hourMs) * hourMs
    completeFrom = Math.max(completeFrom, Math.min(whole, to))
  }
  const missing = state.journals
    .filter(({ journal, seenAt }) => seenAt >= from && kept.every((one) => one.journal !== journal))
    .map(({ journal }) => journal)
  if (missing.length > 0) completeFrom = to
  const ledger = new Map(state.rows.map((row) => [nameOf(row), row]))
  const all = [...new Map([...ledger, ...found]).values()].sort((a, b) => a.hour - b.hour)
  const every = all.flatMap((group) =>
    compare(group, ledger.get(nameOf(group)), found.get(nameOf(group))),
  )
  const placeOf = ({ group, figure }: Difference) => [group.hour, group.keyId, group.model, figure]
  // `counted` is the total plus the weight: a difference of the total alone is not reported as one of `counted`, too.
  const isOwn = ({ group, figure }: Difference) =>
    figure !== 'counted' || weightIn(ledger, group) !== weightIn(found, group)
  const unlike = withoutForgotten(every, placeOf, ({ group }) => group.user).filter(isOwn)
  const isKnown = (one: Difference) => one.group.hour >= completeFrom || one.journals > one.ledger
  const limits = compareLimits(state.limits, foundLimits, { from: completeFrom, to }, from)
  const beyond = {
    differences: unlike.filter((one) => !isKnown(one) && one.group.hour >= completeFrom - hourMs),
    limits: limits.beyond,
  }
  const hours = new Set(beyond.differences.map(({ group }) => nameOf(group)))
  const compared = all.length - hours.size + limits.compared - beyond.limits.length
  const differences = unlike.filter(isKnown)
  return { differences, limits: limits.differences, beyond, compared, completeFrom, missing }
}

/**
 * `whole`: the time of which all lines survive; `asked`: the begin of the lines that were read. For windows that were
 * charged before or after, only sums that the ledger lacks count.
 */
function compareLimits(
  state: readonly LimitRow[],
  read: ReadonlyMap<string, LimitRow>,
  whole: TimeRange,
  asked: number,
) {
  const homeOf = comparedWindows(state, limitNameOf)
  const ledger = new Map<string, LimitRow>()
  for (const row of state) mergeLimit(ledger, homeOf(row))
  const found = new Map<string, LimitRow>()
  for (const row of read.values()) mergeLimit(found, homeOf(row))
  const all = [...new Map([...ledger, ...found])].sort(([, a], [, b]) => a.begin - b.begin)
  const every = all.flatMap(([name, row]) => {
    const { amount: _, first, last, ...limit } = ledger.get(name) ?? row
    const sums = {
      ledger: ledger.get(name)?.amount ?? 0,
      journals: found.get(name)?.amount ?? 0,
    }
    return sums.ledger === sums.journals ? [] : [{ limit, first, last, ...sums }]
  })
  const placeOf = ({ limit: { whom: _, ...place } }: LimitDifference) => Object.values(place)
  const isUsers = ({ limit }: LimitDifference) => limit.per === 'user' || limit.per === 'key'
  const whomOf = (one: LimitDifference) => (isUsers(one) ? one.limit.whom : '')
  const unlike = withoutForgotten(every, placeOf, whomOf)
  const differences: LimitDifference[] = []
  const beyond: LimitDifference[] = []
  for (const { first, last, ...one } of unlike) {
    const isIn = (from: number) => first >= from && last < whole.to
    if (isIn(whole.from) || one.journals > one.ledger) differences.push(one)
    else if (isIn(Math.max(asked, whole.from - hourMs))) beyond.push(one)
  }
  return { differences, beyond, compared: all.length }
}

function mergeLimit(all: Map<string, LimitRow>, row: LimitRow): void {
  mergeRow(all, limitNameOf(row), row, addCharge)
}

function limitNameOf({ resource, name, kind, per, whom, window, begin }: LimitGroup): string {
  return JSON.stringify([resource, name, kind, per, whom, window, begin])
}

function nameOf({ hour, user, keyId, model }: Difference['group']): string {
  return JSON.stringify([hour, user, keyId, model])
}

function compare(
  { hour, user, keyId, model }: VerifiedSums,
  ledger: VerifiedSums | undefined,
  journals: VerifiedSums | undefined,
): readonly Difference[] {
  const group = { hour, user, keyId, model }
  return comparedFigures
    .map((figure) => ({
      group,
      figure,
      ledger: sumOf(ledger, figure),
      journals: sumOf(journals, figure),
    }))
    .filter((one) => one.ledger !== one.journals)
}

function sumOf(row: VerifiedSums | undefined, figure: Difference['figure']): ExactInt {
  if (row === undefined) return 0
  return figure === 'counted' ? addExact(row.total, row.weight) : row[figure]
}

function weightIn(rows: ReadonlyMap<string, VerifiedSums>, group: Difference['group']): number {
  return rows.get(nameOf(group))?.weight ?? 0
}

/**
 * Drops the differences of forgotten users: the journals still have the old name, and so has the ledger for later
 * usage. `placeOf`: identifies a difference, apart from its user.
 */
function withoutForgotten<One extends { readonly ledger: ExactInt; readonly journals: ExactInt }>(
  differences: readonly One[],
  placeOf: (one: One) => readonly (string | number)[],
  userOf: (one: One) => string,
): readonly One[] {
  const left = new Set(differences)
  const sameAs = (one: One, value: ExactInt): string =>
    JSON.stringify([...placeOf(one), `${value}`])
  const isLacking = ({ ledger, journals }: One): boolean => ledger < journals
  const isForgotten = (one: One) => one.journals === 0 && userOf(one).startsWith('forgotten-')
  const lacking = Map.groupBy(differences.filter(isLacking), (one) =>
    sameAs(one, subtractExact(one.journals, one.ledger)),
  )
  for (const one of differences.filter(isForgotten)) {
    const earlier = lacking.get(sameAs(one, one.ledger))?.pop()
    if (earlier !== undefined && left.delete(earlier)) left.delete(one)
  }
  // A user who was forgotten several times in a window has several names for one sum.
  const suspects = [...left].filter((one) => isLacking(one) || isForgotten(one))
  const places = Map.groupBy(suspects, (one) => JSON.stringify(placeOf(one)))
  for (const all of places.values()) {
    const sumOf = (side: 'ledger' | 'journals') =>
      all.reduce((sum, one) => sum + BigInt(one[side]), 0n)
    if (sumOf('ledger') === sumOf('journals')) for (const one of all) left.delete(one)
  }
  return [...left]
}
