/** `tollgate usage verify`: compares the usage ledger with the journal that it was fed from. */

import { parseArgs } from 'node:util'
import { toTimestamp } from '../core/formats/timestamp.ts'
import { findJournalName } from '../ratelimit/journal/name.ts'
import { findKept } from '../ratelimit/ledger/kept.ts'
import { type Verification, verifyUsage } from '../ratelimit/ledger/verify.ts'
import { loadConfig } from '../settings/config.ts'
import { openPool } from '../store/postgres/postgres.ts'
import { readLedgerState } from '../store/usage/state.ts'
import type { LedgerState } from '../store/usage.ts'
import { printable, renderTable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate usage verify [--from <time>] [--to <time>]

Recomputes the sums of usage from the files of USAGE_JOURNAL that are kept and the archives in USAGE_ARCHIVE_DIR, and says
where they differ from the ledger in DATABASE_URL: by hour, user, key and model. Names archives that were changed, are
missing or in another order. Exit status 1: there is anything of this.

  --from, --to   a day (2026-03-01) or a time (RFC 3339), in whole hours of UTC; by default all that is kept

Give it the settings of the service, UNUSABLE_USAGE included.`

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/** Whole hours, in milliseconds since the epoch; `to` is excluded. */
interface Span {
  readonly from: number
  readonly to: number
}

const hourMs = 3_600_000

/** Runs the command; returns the exit status: 1 if anything differs, 2 for invalid arguments. */
export async function verifyUsageCommand(args: readonly string[], io: Io = terminal) {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
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
  const { from, to } = call
  const sql = openPool({ url, connections: 1, applicationName: 'tollgate usage' })
  try {
    const state = await readLedgerState(sql, from, to)
    const problems: string[] = []
    const kept = await findKept(
      { path: config.usageJournal, folder: config.usageArchiveDir },
      state,
      call,
      (problem) => problems.push(problem),
    )
    const result = await verifyUsage({ state, kept, unusableUsage, from, to })
    for (const problem of problems) io.out(problem)
    return Math.max(show(result, state, call, io), Math.min(1, problems.length))
  } finally {
    await sql.end()
  }
}

function show(
  { differences, compared, completeFrom, missing }: Verification,
  { gaps }: LedgerState,
  { from, to }: Span,
  { out, err }: Io,
): number {
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
  return differences.length > 0 ? 1 : 0
}

const time = /^\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d))?$/

function readArguments(args: string[]) {
  const options = { from: { type: 'string' }, to: { type: 'string' } } as const
  const { values } = parseArgs({ args, options })
  const span = {
    from: Math.floor(readTime(values.from, 0) / hourMs) * hourMs,
    to: Math.ceil(readTime(values.to, farthest) / hourMs) * hourMs,
  }
  return span.from < span.to ? span : undefined
}

/** NaN: it is none. */
function readTime(written: string | undefined, otherwise: number): number {
  if (written === undefined) return otherwise
  return time.test(written) ? Date.parse(written) : Number.NaN
}

/** 9999-12-31, in milliseconds since the epoch. */
const farthest = 253_402_214_400_000
