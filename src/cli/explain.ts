/** `tollgate explain`: whether a request would be let through, and why. */

import { parseArgs } from 'node:util'
import type { ExplainAnswer } from '../admin/explain/explain-view.ts'
import { createApiClient } from './api-client.ts'
import { apiServerFlags, findApiServer, takeApiServer } from './api-server.ts'
import { texts } from './flags.ts'
import { printable, renderTable } from './table.ts'
import { type CommandIo, terminal } from './terminal.ts'
import { readCall } from './usage.ts'

const usage = `Usage: tollgate explain <model> [--key <id>] [--path <path>] [--method <method>] [--subscription <name>] [--at <time>]
       tollgate explain <model> --user <name> --group <name>... [...]
       tollgate explain --request <x-request-id>

Says whether the gateway would let a request through, and how it decides. Nothing is counted. The model is
<namespace>/<name>, or a name as in a request's body.

  --key       as the key with this id; otherwise as yourself
  --user      as this user with the groups of --group, for administrators
  --address   from this address, for a key with allowedAddresses, which are not checked without it
  --path      the path at the gateway, if it is not the one for chats; the model may then be left out
  --at        at this time in RFC 3339, within a year, if nothing else is used until then
  --request   a request that was refused within the last hour: what was answered, and what is true now

Takes --json. The exit status is 0 if the request is let through. TOLLGATE_URL is the gateway (default
http://127.0.0.1:8000); TOLLGATE_TOKEN, or the file named by TOLLGATE_TOKEN_FILE, is your identity token or key.
Flags: --url <url>, --insecure-http (allows sending the token over plain http to another machine).`

type Io = Pick<CommandIo, 'env' | 'out' | 'err'>

/** Runs the command; returns the exit status: 1 if the request is refused, 2 for invalid arguments. */
export async function explain(args: readonly string[], io: Io = terminal): Promise<number> {
  const call = readCall(args, usage, readArguments, io)
  if (typeof call === 'number') return call
  const ask = createApiClient(findApiServer(io.env, call.server))
  const answer = (await ask('POST', '/v1/explain', call.question)) as ExplainAnswer
  io.out(call.json ? JSON.stringify(answer, null, 2) : show(answer))
  return answer.allowed ? 0 : 1
}

function readArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      group: { type: 'string', multiple: true },
      ...texts('key', 'user', 'path', 'address', 'method', 'subscription', 'at', 'request'),
      ...apiServerFlags,
    },
    allowPositionals: true,
  })
  const { server, json, rest: flags } = takeApiServer(values)
  const { key, group, request, ...others } = flags
  const [model, ...rest] = positionals
  const asks = model !== undefined || others.path !== undefined || request !== undefined
  if (!asks || rest.length > 0) return undefined
  const groups = group ?? (others.user === undefined ? undefined : [])
  const question = { ...others, model, keyId: key, groups, requestId: request }
  return { json, server, question }
}

function show(answer: ExplainAnswer): string {
  const { steps, policies, subscriptions, limits, changesAt, refusal } = answer
  const isCounted = limits.some(({ kind = 'tokens' }) => kind !== 'tokens')
  const isHeld = limits.some(({ held }) => held !== undefined)
  const then = refusal && `At ${printable(refusal.at)} it was ${showOutcome(refusal)}\n`
  const sections = [
    then,
    `${then ? 'Now it' : 'It'} would be ${answer.allowed ? 'let through.' : showOutcome(answer)}`,
    table(
      ['STEP', 'RESULT', 'BY', 'WRITTEN IN'],
      steps.map(({ step, passed, resource }) => [
        ...[step, passed ? 'passed' : 'refused'],
        ...showResource(resource),
      ]),
    ),
    table(
      ['POLICY', 'WRITTEN IN', 'OPENS THE MODEL'],
      policies.map((policy) => [...showResource(policy), policy.opens ? 'yes' : 'no']),
    ),
    table(
      ['SUBSCRIPTION', 'WRITTEN IN', 'PAYS'],
      subscriptions.map((each) => [
        ...showResource(each),
        each.pays ? 'yes' : `no: ${(each.passedOver ?? 'not reached').replaceAll('_', ' ')}`,
      ]),
    ),
    table(
      [
        'WINDOW',
        'OF',
        ...(isCounted ? ['KIND'] : []),
        'USED',
        ...(isHeld ? ['HELD'] : []),
        'LIMIT',
        'RESETS',
      ],
      limits.map(({ scope = '', kind = '', window, used, held = 0, limit, resetsAt }) => [
        ...[window ?? '-', printable(scope), ...(isCounted ? [printable(kind)] : []), `${used}`],
        ...[...(isHeld ? [`${held}`] : []), `${limit}`, resetsAt ?? '-'],
      ]),
    ),
    changesAt && `This changes at ${printable(changesAt)}.`,
  ]
  return sections.filter(Boolean).join('\n\n')
}

function showOutcome({ status, code, message, reason }: Omit<ExplainAnswer, 'allowed'>): string {
  const detail = reason === undefined ? '' : ` (${reason})`
  return printable(`refused with ${status} ${code}: ${message}${detail}`)
}

/** The resource, and where it is written. */
function showResource(
  resource: ExplainAnswer['steps'][number]['resource'],
): readonly [string, string] {
  if (resource === undefined) return ['', '']
  const { kind, namespace, name, file, line } = resource
  const key = namespace === undefined ? name : `${namespace}/${name}`
  return [`${kind} ${key}`, file === undefined ? '' : `${file}:${line}`]
}

/** Without the columns that are empty. */
function table(header: readonly string[], rows: readonly (readonly string[])[]) {
  if (rows.length === 0) return undefined
  const isUsed = (_: string, column: number) => rows.some((row) => row[column] !== '')
  return renderTable(
    header.filter(isUsed),
    rows.map((row) => row.filter(isUsed)),
    80,
  )
}
