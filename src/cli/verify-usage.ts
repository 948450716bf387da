/** `tollgate usage verify`: compares the usage ledger with the journal that it was built from. */

import type { ExactInt } from '../formats/exact.ts'
import { joinFirst } from '../formats/lists.ts'
import { formatMoney } from '../formats/money.ts'
import { hourMs, toTimestamp } from '../formats/time.ts'
import type { TimeRange } from '../formats/time-range.ts'
import { findJournalName } from '../usage/ledger/journal-name.ts'
import { type LedgerLag, readLedgerLag } from '../usage/ledger/ledger-lag.ts'
import { findSurvivingLines } from '../usage/ledger/ledger-lines.ts'
import { readLedgerState } from '../usage/ledger/postgres/state.ts'
import { type Verification, verifyUsage } from '../usage/ledger/verify.ts'
import type { LedgerState } from '../usage/store.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { verifyUsageFlags } from './commands/usage.ts'
import { withDatabase } from './database.ts'
import { formatCount, formatJson, printable, renderTable } from './output.ts'
import type { CommandIo } from './terminal.ts'
import { latestTime, readTimeFlag } from './time-flag.ts'

/** Runs the command; returns the exit status: 1 if anything differs. */
export const runVerifyUsage: Run<typeof verifyUsageFlags> = async ({ flags }, io) => {
  const span = readSpan(flags)
  return await withDatabase(io.env, 'usage', async (sql, config) => {
    const { unusableUsage, usageJournal: path, dataDir, usageArchiveDir: folder } = config
    if (path === undefined && folder === undefined) {
      throw new Error('Set USAGE_JOURNAL, or USAGE_ARCHIVE_DIR for its archives.')
    }
    if (path !== undefined && findJournalName(path, dataDir) === undefined) {
      throw new Error(
        `No service has read a journal at ${path}; set USAGE_JOURNAL to the file that the service reads.`,
      )
    }
    const { from, to } = span
    const state = await readLedgerState(sql, from, to)
    // Before the lines are compared: lines written meanwhile are not a lag.
    const unread = readLedgerLag({ path, dataDir }, state.journals)
    const problems: string[] = []
    const kept = await findSurvivingLines({ path, dataDir, folder }, state, span, (problem) =>
      problems.push(problem),
    )
    const result = await verifyUsage({ state, kept, unusableUsage, from, to })
    const { differences, limits } = result
    const status = differences.length + limits.length + problems.length > 0 ? 1 : 0
    if (flags.json) {
      const { bytes: unreadBytes, lines: unreadLines } = unread
      const gaps = state.gaps.map((gap) => ({
        ...gap,
        from: toTimestamp(gap.from),
        to: gap.to && toTimestamp(gap.to),
      }))
      const completeFrom = toTimestamp(result.completeFrom)
      const shown = { ...result, completeFrom, ...toShown(result), beyond: toShown(result.beyond) }
      io.out(formatJson({ problems, gaps, unreadBytes, unreadLines, ...shown }))
    } else {
      for (const problem of problems) io.out(problem)
      if (unread.bytes > 0) io.err(lagging(unread))
      show(result, state, span, unread, io)
    }
    return status
  })
}

function lagging({ bytes }: LedgerLag): string {
  return `The ledger lags: ${bytes.toLocaleString('en')} bytes of the journal are not in it yet, and were not compared.`
}

function show(
  { differences, limits, beyond, compared, completeFrom, missing }: Verification,
  { gaps }: LedgerState,
  { from, to }: TimeRange,
  unread: LedgerLag,
  { out, err }: CommandIo,
): void {
  for (const journal of missing) err(`No file of the journal ${journal} was found.`)
  for (const gap of gaps) {
    const end = gap.to === null ? 'an unknown time' : toTimestamp(gap.to)
    err(
      `Usage of ${gap.journal} between ${toTimestamp(gap.from)} and ${end} was lost before it was read.`,
    )
  }
  // The journal lacks the start of its first hour, so no hour is complete before that one ends.
  if (completeFrom >= Math.min(to, Date.now()))
    err('The journal has no complete hour: only rows missing from the ledger are reported.')
  else if (completeFrom > from)
    err(
      `Everything since ${toTimestamp(completeFrom)} is kept in the journal; for earlier hours only missing rows of the ledger are reported.`,
    )
  const more = showBeyond(beyond)
  if (more !== undefined) err(more)
  if (differences.length > 0)
    out(
      renderTable(
        ['HOUR', 'USER', 'KEY', 'MODEL', 'FIGURE', 'LEDGER', 'JOURNAL'],
        differences.map(({ group, figure, ledger, journals }) => [
          ...[toTimestamp(group.hour), printable(group.user), group.keyId || '-', group.model],
          ...[figure, showSum(figure, ledger), showSum(figure, journals)],
        ]),
      ),
    )
  if (limits.length > 0)
    out(
      renderTable(
        ['LIMIT', 'OF', 'WHOM', 'WINDOW', 'BEGINS', 'LEDGER', 'JOURNAL'],
        limits.map(({ limit: { resource, name, kind, whom, window, begin }, ledger, journals }) => [
          ...[`${resource} ${name}`, kind, printable(whom) || '-', window, toTimestamp(begin)],
          ...[showSum(kind, ledger), showSum(kind, journals)],
        ]),
      ),
    )
  if (differences.length + limits.length === 0)
    out(unread.bytes > 0 ? soFar(compared, unread) : `${compared.toLocaleString('en')} sums agree.`)
}

function toShown({ differences, limits }: Verification['beyond']) {
  return {
    differences: differences.map(({ group, ...one }) => ({
      group: { ...group, hour: toTimestamp(group.hour) },
      ...one,
      ...inJson(one.figure, one),
    })),
    limits: limits.map(({ limit, ...one }) => ({
      limit: { ...limit, begin: toTimestamp(limit.begin) },
      ...one,
      ...inJson(limit.kind, one),
    })),
  }
}

/** Figures that are too high, unless some of their lines were deleted; undefined if there are none. */
function showBeyond({ differences, limits }: Verification['beyond']): string | undefined {
  const texts = [
    ...limits.map(({ limit: { resource, name, kind, whom }, ...one }) =>
      [`${resource} ${name}`, whom && `of ${whom}`, showBoth(kind, one)].filter(Boolean).join(' '),
    ),
    ...differences.map(
      ({ group: { hour, user, model }, figure, ...one }) =>
        `${figure} of ${user}, ${model}, ${toTimestamp(hour)} ${showBoth(figure, one)}`,
    ),
  ]
  if (texts.length === 0) return undefined
  return printable(
    `The ledger has more than the journal for the preceding hour, whose other lines may be gone: ${joinFirst(texts, beyondShown)}.`,
  )
}

/** Figures in one sentence. */
const beyondShown = 5

function showBoth(figure: string, { ledger, journals }: Record<'ledger' | 'journals', ExactInt>) {
  return `(${showSum(figure, ledger)}, not ${showSum(figure, journals)})`
}

/** Costs are decimal texts, and so are sums that a JSON number would round. */
function inJson(figure: string, { ledger, journals }: Record<'ledger' | 'journals', ExactInt>) {
  const exact = (sum: ExactInt) => (typeof sum === 'bigint' ? `${sum}` : sum)
  const shown = figure === 'cost' ? formatMoney : exact
  return { ledger: shown(ledger), journals: shown(journals) }
}

function showSum(figure: string, sum: ExactInt): string {
  return figure === 'cost' ? formatMoney(sum) : sum.toLocaleString('en')
}

/** While the ledger lags, the result covers only the lines in it. */
function soFar(compared: number, { lines }: LedgerLag): string {
  const agrees =
    compared === 0
      ? 'the ledger has nothing yet'
      : `the ledger agrees so far (${formatCount(compared, 'sum')})`
  // Bytes without a newline are a line that the gateway has not finished.
  return `Not finished: ${agrees}, and ${formatCount(Math.max(1, lines), 'line')} of the journal ${lines > 1 ? 'are' : 'is'} not in the ledger yet.`
}

/** For whole hours. */
function readSpan(flags: FlagsOf<typeof verifyUsageFlags>): TimeRange {
  const span = {
    from: Math.floor(readTime('--from', flags.from, 0) / hourMs) * hourMs,
    to: Math.ceil(readTime('--to', flags.to, latestTime) / hourMs) * hourMs,
  }
  if (span.from < span.to) return span
  throw new WrongCall('--from must be before --to.')
}

function readTime(flag: string, raw: string | undefined, otherwise: number): number {
  return raw === undefined ? otherwise : readTimeFlag(flag, raw, 'ago')
}
