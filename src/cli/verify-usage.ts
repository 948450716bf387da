/** `tollgate usage verify`: compares the usage ledger with the journal that it was fed from. */

import { toTimestamp } from '../core/formats/timestamp.ts'
import { findJournalName } from '../ratelimit/journal/name.ts'
import { countUnread, findKept } from '../ratelimit/ledger/kept.ts'
import { type Verification, verifyUsage } from '../ratelimit/ledger/verify.ts'
import { loadConfig } from '../settings/config.ts'
import { openPool } from '../store/postgres/postgres.ts'
import { readLedgerState } from '../store/usage/state.ts'
import type { LedgerState } from '../store/usage.ts'
import { type Call, WrongCall } from './command.ts'
import type { verifyUsageFlags } from './commands/usage.ts'
import { toJson } from './json.ts'
import { printable, renderTable } from './table.ts'
import type { CommandIo } from './terminal.ts'

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/** Whole hours, in milliseconds since the epoch; `to` is excluded. */
interface Span {
  readonly from: number
  readonly to: number
}

const hourMs = 3_600_000

/** Runs the command; returns the exit status: 1 if anything differs. */
export async function verifyUsageCommand({ flags }: Call<typeof verifyUsageFlags>, io: Io) {
  const span = readSpan(flags)
  const config = loadConfig(io.env)
  const { databaseUrl: url, unusableUsage } = config
  if (url === undefined) throw new Error('Name the database of the ledger by DATABASE_URL.')
  if (config.usageJournal === undefined && config.usageArchiveDir === undefined) {
    throw new Error('Name the journal by USAGE_JOURNAL, or its archives by USAGE_ARCHIVE_DIR.')
  }
  const { usageJournal: path } = config
  if (path !== undefined && findJournalName(path) === undefined) {
    throw new Error(`No service has read a journal at ${path}: USAGE_JOURNAL is another file.`)
  }
  const { from, to } = span
  const sql = openPool({ url, connections: 1, applicationName: 'tollgate usage' })
  try {
    const state = await readLedgerState(sql, from, to)
    // Before the lines are compared: what is written meanwhile is no lag.
    const unread = path === undefined ? 0 : await countUnread(path, state.journals)
    const problems: string[] = []
    const kept = await findKept(
      { path: config.usageJournal, folder: config.usageArchiveDir },
      state,
      span,
      (problem) => problems.push(problem),
    )
    const result = await verifyUsage({ state, kept, unusableUsage, from, to })
    const status = result.differences.length + problems.length > 0 ? 1 : 0
    if (flags.json) io.out(toJson({ problems, gaps: state.gaps, unreadBytes: unread, ...result }))
    else {
      for (const problem of problems) io.out(problem)
      if (unread > 0) io.err(lagging(unread))
      show(result, state, span, io)
    }
    return status
  } finally {
    await sql.end()
  }
}

function lagging(unread: number): string {
  const bytes = unread.toLocaleString('en')
  return `The ledger lags: ${bytes} bytes of the journal are not in it yet, and were not compared.`
}

function show(
  { differences, compared, completeFrom, missing }: Verification,
  { gaps }: LedgerState,
  { from, to }: Span,
  { out, err }: Io,
): void {
  for (const journal of missing) err(`Nothing of the journal ${journal} is here.`)
  for (const gap of gaps) {
    const end = gap.to === null ? 'an unknown time' : toTimestamp(gap.to)
    err(`Usage of ${gap.journal} between ${toTimestamp(gap.from)} and ${end} was lost unread.`)
  }
  if (completeFrom >= to) err('No hour is kept whole: only what the ledger lacks is named.')
  else if (completeFrom > from)
    err(
      `Everything since ${toTimestamp(completeFrom)} is kept; before, only what the ledger lacks is named.`,
    )
  if (differences.length > 0)
    out(
      renderTable(
        ['HOUR', 'USER', 'KEY', 'MODEL', 'FIGURE', 'LEDGER', 'JOURNAL'],
        differences.map(({ group, figure, ledger, journals }) => [
          ...[toTimestamp(group.hour), printable(group.user), group.keyId || '-', group.model],
          ...[figure, ledger.toLocaleString('en'), journals.toLocaleString('en')],
        ]),
      ),
    )
  else out(`${compared.toLocaleString('en')} sums agree.`)
}

const time = /^\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d))?$/

function readSpan(flags: Call<typeof verifyUsageFlags>['flags']): Span {
  const span = {
    from: Math.floor(readTime('--from', flags.from, 0) / hourMs) * hourMs,
    to: Math.ceil(readTime('--to', flags.to, farthest) / hourMs) * hourMs,
  }
  if (span.from < span.to) return span
  throw new WrongCall('--from must be before --to.')
}

function readTime(flag: string, written: string | undefined, otherwise: number): number {
  if (written === undefined) return otherwise
  const read = time.test(written) ? Date.parse(written) : Number.NaN
  if (!Number.isNaN(read)) return read
  throw new WrongCall(`${flag} is a day like 2026-03-01, or a time like 2026-03-01T12:00:00Z.`)
}

/** 9999-12-31, in milliseconds since the epoch. */
const farthest = 253_402_214_400_000
