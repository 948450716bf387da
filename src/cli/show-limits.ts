/** `tollgate limits`: what is left of the caller's limits; with `--all` of those that several share. */

import type { LimitList } from '../admin/usage/limits.ts'
import type { SharedLimitList } from '../admin/usage/shared-limits.ts'
import { type ApiClient, createApiClient } from './api-client.ts'
import { findApiServer } from './api-server.ts'
import { renderBar } from './bar.ts'
import { type Call, WrongCall } from './command.ts'
import type { limitsFlags } from './commands/usage.ts'
import { listCounters } from './counter.ts'
import { toJson } from './json.ts'
import { showFigure, toCells, toTable } from './limit-cells.ts'
import { renderTable } from './table.ts'
import type { CommandIo } from './terminal.ts'

/** Runs the command; returns the exit status. */
export async function showLimits(
  { flags }: Call<typeof limitsFlags>,
  io: Pick<CommandIo, 'env' | 'out' | 'err'>,
): Promise<number> {
  const { user, key, limit, all, window, whom, subscription, model } = flags
  if (all && (user ?? key ?? window ?? whom) !== undefined)
    throw new WrongCall('--all goes with --limit, --subscription and --model only.')
  if (!all && (user ?? key ?? limit) !== undefined) return await listCounters(flags, io)
  if ((window ?? whom) !== undefined)
    throw new WrongCall('--window and --whom go with --user, --key or --limit.')
  const ask = createApiClient(findApiServer(io.env, flags))
  const only = Object.entries({ subscription, model, name: limit }).filter(
    ([, value]) => value !== undefined,
  ) as [string, string][]
  const list = all
    ? await readShared(ask, only)
    : ((await ask('GET', `/v1/limits?${new URLSearchParams(only)}`)) as LimitList)
  if (flags.json) io.out(toJson(list))
  else if (list.data.length === 0) io.err(all ? 'No limit is shared.' : 'You have no limits.')
  else io.out(show(list))
  if (list.has_more) io.err('There are more: name a subscription or a model.')
  return 0
}

const pageSize = 1_000

/** All pages as one. */
async function readShared(
  ask: ApiClient,
  only: readonly [string, string][],
): Promise<SharedLimitList> {
  const data: SharedLimitList['data'] = []
  for (;;) {
    const page = new URLSearchParams([...only])
    page.set('limit', `${pageSize}`)
    page.set('offset', `${data.length}`)
    const list = (await ask('GET', `/v1/admin/limits?${page}`)) as SharedLimitList
    data.push(...list.data)
    if (!list.has_more || list.data.length === 0) return { ...list, data }
  }
}

function show({ data, currency }: LimitList): string {
  const rows = data.map((each) => {
    const { limit, remaining, resetsAt } = each
    // Older servers say only the figures.
    const percent = each.percentLeft ?? (100 * Number(remaining)) / Number(limit)
    return {
      ...toCells(each),
      LEFT: remaining === null ? `${percent}%` : showFigure(remaining, currency),
      LIMIT: showFigure(limit, currency),
      RESETS: resetsAt ?? '-',
      ' ': renderBar(percent / 100),
    }
  })
  return renderTable(...toTable(rows))
}
