/** `tollgate limits`: shows the rest of the caller's limits; with `--all`, of shared limits. */

import type { LimitList } from '../admin/usage/limits.ts'
import type { SharedLimitList } from '../admin/usage/shared-limits.ts'
import { connectApi } from './api-client.ts'
import { type Run, WrongCall } from './command.ts'
import type { limitsFlags } from './commands/usage.ts'
import { listCounters } from './counters.ts'
import { formatFigure, toLimitCells } from './limit-cells.ts'
import { formatJson, printable, renderBar, renderCells } from './output.ts'
import { readPages } from './pages.ts'

/** Runs the command; returns the exit status. */
export const showLimits: Run<typeof limitsFlags> = async ({ flags }, io) => {
  const { user, key, limit, all, window, whom, subscription, model } = flags
  if (all && (user ?? key ?? window ?? whom) !== undefined)
    throw new WrongCall('--all can be combined only with --limit, --subscription and --model.')
  if (!all && (user ?? key ?? limit) !== undefined) return await listCounters(flags, io)
  if ((window ?? whom) !== undefined)
    throw new WrongCall('--window and --whom require --user, --key or --limit.')
  const ask = connectApi(io, flags)
  const only = Object.entries({ subscription, model, name: limit }).filter(
    ([, value]) => value !== undefined,
  ) as [string, string][]
  const read = async (selected: readonly [string, string][]): Promise<Limits> =>
    all
      ? await readPages<SharedLimitList>(ask, '/v1/admin/limits', selected)
      : ((await ask('GET', `/v1/limits?${new URLSearchParams([...selected])}`)) as LimitList)
  const list = await read(only)
  if (flags.json) io.out(formatJson(list))
  else if (list.data.length === 0)
    io.err(explainNone(only, only.length > 0 ? await read([]) : list, all))
  else io.out(show(list))
  if (list.has_more) io.err('There are more limits; select some with --subscription or --model.')
  return 0
}

type Limits = LimitList | SharedLimitList
type Limit = Limits['data'][number]

const most = 10

/** By parameter: its flag, and the values with which it selects a limit. */
const selecting: Readonly<
  Record<string, readonly [flag: string, (limit: Limit) => readonly (string | null)[]]>
> = {
  subscription: ['--subscription', ({ subscription }) => [subscription]],
  model: ['--model', ({ model, models = [] }) => [model, ...models]],
  name: ['--limit', ({ name }) => [name]],
}

/** `known`: the limits without the flags. */
function explainNone(
  only: readonly (readonly [string, string])[],
  known: Limits,
  all: boolean,
): string {
  if (known.data.length === 0) return all ? 'There are no shared limits.' : 'You have no limits.'
  const sentences = only.flatMap(([parameter, value]) => {
    const [flag, namesOf] = selecting[parameter] as (typeof selecting)[string]
    const names = [...new Set(known.data.flatMap(namesOf))].filter((name) => name !== null).sort()
    if (names.includes(value)) return []
    const shown = names.slice(0, most).join(', ') + (names.length > most ? ' and others' : '')
    return [`No limit for ${flag} ${value}${shown && `; there are limits of ${shown}`}.`]
  })
  return printable(sentences.join(' ') || 'No limit matches all of these flags together.')
}

function show({ data, currency }: LimitList): string {
  const rows = data.map((each) => {
    const { limit, remaining, resetsAt, percentLeft: percent } = each
    return {
      ...toLimitCells(each),
      LEFT: remaining === null ? `${percent}%` : formatFigure(remaining, currency),
      LIMIT: formatFigure(limit, currency),
      RESETS: resetsAt ?? '-',
      ' ': renderBar(percent / 100),
    }
  })
  return renderCells(rows)
}
