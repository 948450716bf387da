/** `tollgate usage`: what was used. */

import { parseArgs } from 'node:util'
import { type CsvRow, toCsv } from '../core/formats/csv.ts'
import { type ApiClient, type CsvPage, createApiClient } from './api-client.ts'
import { apiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { renderBar } from './bar.ts'
import { switches, texts } from './flags.ts'
import { renderTable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate usage [--from <time>] [--to <time>] [--by <groups>] [--user <name>] [--key <id>]
       [--model <namespace>/<name>] [--subscription <name>] [--organization <name>] [--cost-center <name>]
       [--label <name>=<value>]
       tollgate usage --focus [--from <day>] [--to <day>]
       tollgate usage verify [--from <time>] [--to <time>]
       tollgate usage forget <user> [--yes]

Shows how many tokens were used: by you, with a key by that key, and for administrators by everybody.

  --from, --to   a day (2026-03-01) or a time (RFC 3339); by default this month until now, in UTC
  --by           one of hour, day and month, and any of subscription, model, user, key, organization,
                 cost_center and label:<name>, with commas; by default day
  --label        only of keys that have this label now

Takes --json and --csv. --focus, for administrators, prints FOCUS 1.2 as CSV. Costs have no currency: they are tokens times the rate per token of their subscription.
TOLLGATE_URL is the gateway (default http://127.0.0.1:8000); TOLLGATE_TOKEN, or the file named by
TOLLGATE_TOKEN_FILE, is your identity token or key. Flags: --url <url>, --insecure-http (allows sending the token
over plain http to another machine).`

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/** Runs the command; returns the exit status, 2 for invalid arguments. */
export async function showUsage(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  const ask = createApiClient(findApiServer(io.env, call.server))
  if (call.focus) {
    await printFocus(ask, call.parameters, io)
    return 0
  }
  const { pages, rows } = await readAll(ask, call.parameters)
  const [first] = pages
  if (call.json) io.out(JSON.stringify({ ...first, data: rows, has_more: false }, null, 2))
  else if (call.csv) io.out(toCsv(columnsOf(rows), rows).trimEnd())
  else if (rows.length === 0) io.err('Nothing was used.')
  else io.out(show(rows))
  for (const { from, to } of first?.gaps ?? []) {
    io.err(
      `Some usage between ${from} and ${to ?? 'an unknown time'} was lost and is missing here.`,
    )
  }
  return 0
}

function readArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...texts('from', 'to', 'by', 'user', 'key', 'model', 'subscription'),
      ...texts('organization', 'cost-center', 'label'),
      ...switches('csv', 'focus'),
      ...apiServerFlags,
    },
    allowPositionals: true,
  })
  const { server, json, rest } = takeApiServer(values)
  const { csv, focus, by, 'cost-center': center, ...same } = rest
  if (positionals.length > 0 || [json, csv, focus].filter(Boolean).length > 1) return undefined
  const written = { ...same, group_by: by, cost_center: center }
  const parameters = Object.entries(written).filter(([, value]) => value !== undefined)
  return { json, csv, focus, server, parameters: parameters as [string, string][] }
}

/** Page by page, with the header of the first. */
async function printFocus(
  ask: ApiClient,
  parameters: readonly [string, string][],
  { out }: Pick<Io, 'out'>,
): Promise<void> {
  const first = `?${new URLSearchParams([...parameters, ['format', 'focus']])}`
  for (let query: string | undefined = first; query !== undefined; ) {
    const page = (await ask('GET', `/v1/usage${query}`)) as CsvPage
    const text = query === first ? page.text : page.text.slice(page.text.indexOf('\n') + 1)
    out(text.trimEnd())
    query = page.next
  }
}

/** The fields of a page that are shown; the others are passed through. */
interface Page {
  readonly data: readonly CsvRow[]
  readonly gaps: readonly { readonly from: string; readonly to: string | null }[]
  readonly next_cursor?: string
}

async function readAll(ask: ApiClient, parameters: readonly [string, string][]) {
  const pages: Omit<Page, 'next_cursor'>[] = []
  for (let cursor: string | undefined, isLast = false; !isLast; ) {
    const query = new URLSearchParams([
      ...parameters,
      ...(cursor === undefined ? [] : [['cursor', cursor]]),
    ] as [string, string][])
    const { next_cursor, ...page } = (await ask('GET', `/v1/usage?${query}`)) as Page
    pages.push(page)
    cursor = next_cursor
    isLast = next_cursor === undefined
  }
  return { pages, rows: pages.flatMap(({ data }) => data) }
}

const figures = ['answers', 'input_tokens', 'output_tokens', 'total_tokens'] as const
const others = ['cached_tokens', 'reasoning_tokens', 'estimated_tokens', 'refusals_approximate']

/** The groups come first, and the cost last, if there is one. */
function columnsOf(rows: readonly CsvRow[]): readonly string[] {
  const known: readonly string[] = [...figures, ...others, 'cost']
  const groups = Object.keys(rows[0] ?? {}).filter((name) => !known.includes(name))
  const order = [
    'start',
    'subscription',
    'model',
    'user',
    'key_id',
    'organization_id',
    'cost_center',
  ]
  groups.sort((a, b) => order.indexOf(a) - order.indexOf(b))
  return [...groups, ...figures, ...others, ...(rows.some(({ cost }) => cost) ? ['cost'] : [])]
}

/** The columns that have anything to say, and a bar for the total. */
function show(rows: readonly CsvRow[]): string {
  const most = Math.max(...rows.map(({ total_tokens: total }) => Number(total)))
  const columns = columnsOf(rows).filter(
    (column) => !others.includes(column) || rows.some((row) => Number(row[column]) > 0),
  )
  return renderTable(
    [
      ...columns.map((column) =>
        column
          .replace(/_(tokens|id)$/, '')
          .replaceAll('_', ' ')
          .toUpperCase(),
      ),
      '',
    ],
    rows.map((row) => [
      ...columns.map((column) => showCell(column, row[column])),
      renderBar(Number(row.total_tokens) / Math.max(1, most)),
    ]),
  )
}

function showCell(column: string, value: string | number | undefined): string {
  if (typeof value === 'number') return value.toLocaleString('en')
  if (column === 'start') return `${value}`.slice(0, 16).replace('T', ' ').replace(' 00:00', '')
  return value === undefined || value === '' ? '-' : value
}
