/** `tollgate usage`: shows usage. */

import { type CsvRow, toCsv } from '../formats/csv.ts'
import { problemOfLabels } from '../formats/labels.ts'
import { nearestName } from '../formats/nearest-name.ts'
import { usageDimensions, usageUnits } from '../usage/store.ts'
import { type ApiClient, type CsvPage, connectApi } from './api-client.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { usageFlags } from './commands/usage.ts'
import { formatJson, printable, renderBar, renderTable } from './output.ts'
import type { CommandIo } from './terminal.ts'
import { toSpan } from './time-flag.ts'

/** Runs the command; returns the exit status. */
export const showUsage: Run<typeof usageFlags> = async ({ flags }, io) => {
  const { json, csv, focus } = flags
  if ([json, csv, focus].filter(Boolean).length > 1) {
    throw new WrongCall('Give only one of --json, --csv and --focus.')
  }
  checkGroups(flags)
  const ask = connectApi(io, flags)
  if (focus) {
    await printFocus(ask, parametersOf(flags), io)
    return 0
  }
  const { pages, rows } = await readAll(ask, parametersOf(flags))
  const [first] = pages
  if (json) io.out(formatJson({ ...first, data: rows, has_more: false }))
  else if (csv) io.out(toCsv(columnsOf(rows), rows).trimEnd())
  else if (rows.length === 0) io.err('Nothing was used.')
  else io.out(show(rows, first?.currency))
  for (const { from, to } of first?.gaps ?? []) {
    const span = `between ${from} and ${to ?? 'an unknown time'}`
    io.err(printable(`Some usage ${span} was lost and is missing here.`))
  }
  return 0
}

const groupNames: readonly string[] = [...usageUnits, ...usageDimensions]

/** Throws a WrongCall for groups that no gateway accepts. */
function checkGroups({ by }: FlagsOf<typeof usageFlags>): void {
  for (const word of by?.split(',') ?? []) {
    if (groupNames.includes(word) || isLabel(word)) continue
    const near = nearestName(word, groupNames)
    const hint = near === undefined ? '' : `; did you mean ${near}?`
    const known = `--by may name ${groupNames.join(', ')} and label:<name>, not ${printable(word)}`
    throw new WrongCall(`${known}${hint || '.'}`)
  }
}

function isLabel(word: string): boolean {
  const name = /^label:(.*)$/s.exec(word)?.[1]
  return name !== undefined && problemOfLabels({ [name]: 'any' }) === undefined
}

function parametersOf(flags: FlagsOf<typeof usageFlags>): readonly [string, string][] {
  const { by, user, key, model, subscription, organization, label } = flags
  const filters = { ...toSpan(flags), user, key, model, subscription, organization, label }
  const all = { ...filters, group_by: by, cost_center: flags['cost-center'] }
  return Object.entries(all).filter((each): each is [string, string] => each[1] !== undefined)
}

/** Page by page, with the header of the first. */
async function printFocus(
  ask: ApiClient,
  parameters: readonly [string, string][],
  { out }: CommandIo,
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
  readonly currency?: string
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
const others = [
  ...['cached_tokens', 'reasoning_tokens', 'estimated_tokens', 'refusals_approximate'],
  ...['cache_write_tokens', 'counted_tokens'],
]

/** Puts the groups first, and the cost last, if there is one. */
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

/** The columns that are not empty, and a bar for the total. */
function show(rows: readonly CsvRow[], currency: string | undefined): string {
  const most = rows.reduce((most, row) => Math.max(most, Number(row.total_tokens)), 1)
  const columns = columnsOf(rows).filter(
    (column) => !others.includes(column) || rows.some((row) => hasToSay(row, column)),
  )
  return renderTable(
    [
      ...columns.map((column) => {
        const head = column
          .replace(/_(tokens|id)$/, '')
          .replace('_approximate', ' (about)')
          .replaceAll('_', ' ')
        const unit = column === 'cost' && currency !== undefined ? ` (${currency})` : ''
        return `${head.toUpperCase()}${unit}`
      }),
      '',
    ],
    rows.map((row) => [
      ...columns.map((column) => showCell(column, row[column])),
      renderBar(Number(row.total_tokens) / most),
    ]),
  )
}

function hasToSay(row: CsvRow, column: string): boolean {
  const value = Number(row[column])
  return column === 'counted_tokens' ? value !== Number(row.total_tokens) : value > 0
}

function showCell(column: string, value: string | number | undefined): string {
  if (typeof value === 'number') return value.toLocaleString('en')
  if (column === 'start') return `${value}`.slice(0, 16).replace('T', ' ').replace(' 00:00', '')
  return value === undefined || value === '' ? '-' : value
}
