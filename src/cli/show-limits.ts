/** `tollgate limits`: what is left of the caller's limits. */

import { parseArgs } from 'node:util'
import type { LimitList } from '../admin/usage/limits.ts'
import { createApiClient } from './api-client.ts'
import { apiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { renderBar } from './bar.ts'
import { texts } from './flags.ts'
import { renderTable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate limits [--subscription <name>] [--model <namespace>/<name>]

Shows what is left of your limits, with a key of those of its subscription. Nothing is counted.

Takes --json. TOLLGATE_URL is the gateway (default http://127.0.0.1:8000); TOLLGATE_TOKEN, or the file named by
TOLLGATE_TOKEN_FILE, is your identity token or key. Flags: --url <url>, --insecure-http (allows sending the token
over plain http to another machine).`

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/** Runs the command; returns the exit status, 2 for invalid arguments. */
export async function showLimits(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  const ask = createApiClient(findApiServer(io.env, call.server))
  const list = (await ask('GET', `/v1/limits?${new URLSearchParams(call.only)}`)) as LimitList
  if (call.json) io.out(JSON.stringify(list, null, 2))
  else if (list.data.length === 0) io.err('You have no limits.')
  else io.out(show(list))
  if (list.has_more) io.err('There are more: name a subscription or a model.')
  return 0
}

function readArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    options: { ...texts('subscription', 'model'), ...apiServerFlags },
    allowPositionals: true,
  })
  if (positionals.length > 0) return undefined
  const { server, json, rest: only } = takeApiServer(values)
  return { json, only: only as Record<string, string>, server }
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
