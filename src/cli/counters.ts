/** Counters of a user, a key or a shared limit, for administrators: `tollgate limits --user` and `tollgate limits reset`. */

import type { CountersReset, ShownCounters } from '../admin/usage/counters.ts'
import { connectApi } from './api-client.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { limitsFlags, resetLimitsFlags } from './commands/usage.ts'
import { formatFigure, toLimitCells } from './limit-cells.ts'
import { formatJson, printable, renderCells } from './output.ts'
import { type CommandIo, confirm } from './terminal.ts'

type Chosen = FlagsOf<typeof limitsFlags>

/** Explains why the list is empty. */
function explainNothing(
  { unknown = [] }: Pick<ShownCounters, 'unknown'>,
  selected: Readonly<Record<string, string>>,
): string {
  const kinds: Readonly<Record<string, string>> = { subscription: 'Subscription', model: 'model' }
  const names = unknown.map((each) => `There is no ${kinds[each]} ${selected[each]} in force.`)
  return printable(names.join(' ') || 'Nothing is used.')
}

/** Prints the counters above 0; returns the exit status. */
export async function listCounters(flags: Chosen, io: CommandIo): Promise<number> {
  const selected = selectedBy(flags)
  const ask = connectApi(io, flags)
  const query = new URLSearchParams(selected)
  const found = (await ask('GET', `/v1/counters?${query}`)) as ShownCounters
  print(found, found.data, selected, flags.json, io)
  return 0
}

/** Resets counters; returns the exit status: 1 if the user did not agree. */
export const resetLimits: Run<typeof resetLimitsFlags> = async ({ flags }, io) => {
  const selected = selectedBy(flags)
  const ask = connectApi(io, flags)
  if (!flags.yes) {
    const query = new URLSearchParams(selected)
    const found = (await ask('GET', `/v1/counters?${query}`)) as ShownCounters
    const { data, currency } = found
    if (data.length === 0) io.err(explainNothing(found, selected))
    if (data.length === 0) return 0
    io.err(show(data, currency))
    if (!(await confirm(io, `Reset ${data.length === 1 ? 'it' : `these ${data.length}`}?`)))
      return 1
  }
  const response = (await ask('POST', '/v1/counters/reset', selected)) as CountersReset
  print(response, response.reset, selected, flags.json, io)
  if (response.reset.length > 0) io.err('These were reset.')
  return 0
}

function selectedBy(flags: Chosen | FlagsOf<typeof resetLimitsFlags>) {
  const { user, key, limit, whom, subscription, model, window } = flags
  if (user !== undefined && key !== undefined)
    throw new WrongCall('Give either --user or --key, not both.')
  if ((user ?? key ?? limit) === undefined) {
    throw new WrongCall('Give --user, --key, or --limit with the name of a shared limit.')
  }
  const all = { user, key_id: key, name: limit, whom, subscription, model, window }
  const given = Object.entries(all).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as Record<string, string>
}

function print(
  response: Pick<ShownCounters, 'currency' | 'unknown'>,
  counters: ShownCounters['data'],
  selected: Readonly<Record<string, string>>,
  json: boolean,
  { out, err }: CommandIo,
): void {
  if (json) out(formatJson(response))
  else if (counters.length === 0) err(explainNothing(response, selected))
  else out(show(counters, response.currency))
}

function show(counters: ShownCounters['data'], currency: string | undefined): string {
  const rows = counters.map((each) => ({
    ...toLimitCells(each),
    USED: formatFigure(each.used, currency),
    LIMIT: formatFigure(each.limit, currency),
    RESETS: each.resetsAt ?? '-',
  }))
  return renderCells(rows)
}
