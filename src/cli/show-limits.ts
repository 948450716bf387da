/** `tollgate limits`: what is left of the caller's limits. */

import type { LimitList } from '../admin/usage/limits.ts'
import { createApiClient } from './api-client.ts'
import { findApiServer } from './api-server.ts'
import { renderBar } from './bar.ts'
import { type Call, WrongCall } from './command.ts'
import type { limitsFlags } from './commands/usage.ts'
import { listCounters } from './counter.ts'
import { toJson } from './json.ts'
import { renderTable } from './table.ts'
import type { CommandIo } from './terminal.ts'

/** Runs the command; returns the exit status. */
export async function showLimits(
  { flags }: Call<typeof limitsFlags>,
  io: Pick<CommandIo, 'env' | 'out' | 'err'>,
): Promise<number> {
  if ((flags.user ?? flags.key) !== undefined) return await listCounters(flags, io)
  if (flags.window !== undefined) throw new WrongCall('--window goes with --user or --key.')
  const ask = createApiClient(findApiServer(io.env, flags))
  const { subscription, model } = flags
  const only = Object.entries({ subscription, model }).filter(([, value]) => value !== undefined)
  const query = new URLSearchParams(only as [string, string][])
  const list = (await ask('GET', `/v1/limits?${query}`)) as LimitList
  if (flags.json) io.out(toJson(list))
  else if (list.data.length === 0) io.err('You have no limits.')
  else io.out(show(list))
  if (list.has_more) io.err('There are more: name a subscription or a model.')
  return 0
}

function show({ data }: LimitList): string {
  const number = (value: number): string => value.toLocaleString('en')
  return renderTable(
    ['SUBSCRIPTION', 'MODEL', 'OF', 'WINDOW', 'LEFT', 'LIMIT', 'RESETS', ''],
    // Older servers leave out the kind.
    data.map(({ subscription, model, kind, window, limit, remaining, resetsAt }) => [
      ...[subscription, model ?? 'this key', kind ?? 'tokens', window ?? '-'],
      ...[number(remaining), number(limit)],
      ...[resetsAt ?? '-', renderBar(remaining / limit)],
    ]),
  )
}
