/** `tollgate counter`: counters of a user or a key, for administrators. */

import { parseArgs } from 'node:util'
import type { CounterList, CountersReset } from '../admin/usage/counters.ts'
import { createApiClient } from './api-client.ts'
import { apiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { switches, texts } from './flags.ts'
import { renderTable } from './table.ts'
import { agrees, type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate counter show (--user <name> | --key <id>) [--subscription <name>] [--model <namespace>/<name>] [--window <window>]
       tollgate counter reset (--user <name> | --key <id>) [--subscription <name>] [--model <namespace>/<name>] [--window <window>] [--yes]

For administrators. show: the counters with an open window: a user's, or those of a key's own limits. reset: ends these
windows, so that the user may go on at once; responses that ended before are not added again. What was charged does not
change, and requests in progress end by themselves.

Takes --json. TOLLGATE_URL is the gateway (default http://127.0.0.1:8000); TOLLGATE_TOKEN, or the file named by
TOLLGATE_TOKEN_FILE, is your identity token. Flags: --url <url>, --insecure-http (allows sending the token over plain
http to another machine).`

type Io = Pick<CommandIo, 'env' | 'out' | 'err' | 'ask'>

/** Runs the command; returns the exit status: 1 if it was not confirmed, 2 for invalid arguments. */
export async function counter(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  const { command, selected, json } = call
  const ask = createApiClient(findApiServer(io.env, call.server))
  const list = async () =>
    (await ask('GET', `/v1/counters?${new URLSearchParams(selected)}`)) as CounterList
  if (command === 'show') {
    const found = await list()
    print(found, found.data, json, io)
    return 0
  }
  if (!call.yes) {
    const { data } = await list()
    if (data.length === 0) io.err('There are no such counters.')
    if (data.length === 0) return 0
    io.err(show(data))
    if (!(await agrees(io, `Reset ${data.length === 1 ? 'it' : `these ${data.length}`}?`))) return 1
  }
  const answer = (await ask('POST', '/v1/counters/reset', selected)) as CountersReset
  print(answer, answer.reset, json, io)
  if (answer.reset.length > 0) io.err('These were reset.')
  return 0
}

function readArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...texts('user', 'key', 'subscription', 'model', 'window'),
      ...switches('yes'),
      ...apiServerFlags,
    },
    allowPositionals: true,
  })
  const [command, ...rest] = positionals
  const { server, json, rest: flags } = takeApiServer(values)
  const { yes, key, ...others } = flags
  const selected = { ...others, ...(key !== undefined && { key_id: key }) }
  if ((command !== 'show' && command !== 'reset') || rest.length > 0) return undefined
  if ((selected.user === undefined) === (key === undefined)) return undefined
  return { command, selected: selected as Record<string, string>, yes, json, server }
}

function print(
  answer: object,
  counters: CounterList['data'],
  json: boolean,
  { out, err }: Io,
): void {
  if (json) out(JSON.stringify(answer, null, 2))
  else if (counters.length === 0) err('There are no such counters.')
  else out(show(counters))
}

function show(counters: CounterList['data']): string {
  return renderTable(
    ['SUBSCRIPTION', 'MODEL', 'OF', 'WINDOW', 'USED', 'LIMIT', 'RESETS'],
    // Older servers leave out the kind.
    counters.map(({ subscription, model, kind = 'tokens', window, used, limit, resetsAt }) => [
      ...[subscription, model ?? 'this key', kind, window ?? '-'],
      ...[used.toLocaleString('en'), limit.toLocaleString('en'), resetsAt ?? '-'],
    ]),
  )
}
