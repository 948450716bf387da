/** `tollgate explain`: whether a request would be allowed, and why. */

import type { ExplainResponse } from '../admin/explain/explain-response.ts'
import { joinFirst } from '../formats/lists.ts'
import { connectApi } from './api-client.ts'
import { type FlagsOf, type Run, WrongCall } from './command.ts'
import type { explainFlags } from './commands/usage.ts'
import { formatFigure, showSharers } from './limit-cells.ts'
import { type Cells, formatJson, printable, renderCells } from './output.ts'
import { parseTimeFlag } from './time-flag.ts'

/** Runs the command; returns the exit status: 1 if the request is refused. */
export const explain: Run<typeof explainFlags> = async ({ operands: [model], flags }, io) => {
  const { key: keyId, group, request: requestId, user, path, address, method } = flags
  if (model === undefined && path === undefined && requestId === undefined) {
    throw new WrongCall('Give the <model>, --path or --request.')
  }
  if (user === undefined && group !== undefined) throw new WrongCall('--group needs --user.')
  if (user !== undefined && keyId !== undefined) {
    throw new WrongCall('Either --user or --key, not both.')
  }
  const groups = group ?? (user === undefined ? undefined : [])
  const { subscription } = flags
  const others = [model, keyId, user, path, address, method, subscription, flags.at]
  if (requestId !== undefined && others.some((each) => each !== undefined)) {
    throw new WrongCall('--request cannot be combined with a model or other flags.')
  }
  const question = {
    model,
    keyId,
    user,
    groups,
    path,
    address,
    method,
    subscription,
    at: parseTimeFlag('--at', flags.at, 'ahead'),
    requestId,
  }
  const ask = connectApi(io, flags)
  const response = (await ask('POST', '/v1/explain', question)) as ExplainResponse
  io.out(flags.json ? formatJson(response) : show(response, flags))
  return response.allowed ? 0 : 1
}

type Asking = Pick<FlagsOf<typeof explainFlags>, 'user' | 'group' | 'subscription'>

function show(response: ExplainResponse, asking: Asking): string {
  const { steps, policies, subscriptions, limits, changesAt, refusal, askedAs, backend } = response
  const { unlistedName, table: decided } = response
  const then = refusal && `At ${printable(refusal.at)} it was ${showOutcome(refusal)}`
  const sections = [
    then,
    `${then ? 'Now it' : 'It'} would be ${response.allowed ? 'allowed.' : showOutcome(response)}`,
    showAsked(askedAs, asking),
    backend && printable(`The last request to the model's server failed: ${showFailure(backend)}.`),
    unlistedName && printable(showUnlisted(unlistedName)),
    ...[
      steps.map(({ step, passed, resource }) => {
        const { BY, ...place } = toCells('BY', resource)
        const name = step === 'limits' && limits.find(({ refuses }) => refuses)?.name
        const by = name ? `${BY}, limit ${name}` : `${BY}`
        return { STEP: step, RESULT: passed ? 'passed' : 'refused', BY: by, ...place }
      }),
      policies.map((policy) => {
        return { ...toCells('POLICY', policy), 'GRANTS ACCESS': policy.opens ? 'yes' : 'no' }
      }),
      subscriptions.map((each) => {
        const because = `no: ${(each.passedOver ?? 'not reached').replaceAll('_', ' ')}`
        return { ...toCells('SUBSCRIPTION', each), PAYS: each.pays ? 'yes' : because }
      }),
      limits.map((each) => toRow(each, response.currency)),
    ].map((rows) => renderCells(rows, 80)),
    changesAt && `This changes at ${printable(changesAt)}.`,
    decided &&
      `Envoy ${decided.decides ? 'may decide the next request of this kind by itself.' : `asks the service each time (${printable(reasonOf(decided))}).`}`,
  ]
  return sections.filter(Boolean).join('\n\n')
}

/** A limit; columns that are empty in all rows are omitted. */
function toRow(limit: ExplainResponse['limits'][number], currency: string | undefined) {
  const { name, scope = '', kind = 'tokens', window, used, held, resetsAt } = limit
  const sharers = showSharers(limit)
  return {
    NAME: name ?? '',
    WINDOW: window ?? '-',
    OF: sharers || scope,
    KIND: kind === 'tokens' ? '' : kind,
    USED: used === null ? `${100 - limit.percentLeft}%` : formatFigure(used, currency),
    HELD: held === undefined ? '' : formatFigure(held, currency),
    LIMIT: formatFigure(limit.limit, currency),
    RESETS: resetsAt ?? '-',
    INCREASED: limit.increasedUntil === undefined ? '' : `until ${limit.increasedUntil}`,
    REFUSES: limit.refuses ? 'yes' : '',
  }
}

function showOutcome({ status, code, message, reason }: Omit<ExplainResponse, 'allowed'>): string {
  const detail = reason === undefined ? '' : ` (${reason})`
  return printable(`refused with ${status} ${code}: ${message}${detail}`)
}

/** Undefined for the caller's own credential, or the key that was named. */
function showAsked(
  askedAs: ExplainResponse['askedAs'],
  { user, group = [], subscription }: Asking,
): string | undefined {
  if (askedAs?.key === 'newest') {
    const { name, keyId } = askedAs
    const asked = `Asked with the newest key, ${name} (${keyId}), of the Subscription ${askedAs.subscription}.`
    return printable(`${asked}${showOtherwise(askedAs)}`)
  }
  const asNew = askedAs && ` a new key would be of the Subscription ${askedAs.subscription}.`
  if (user === undefined) return asNew && printable(`You have no active key:${asNew}`)
  const groups = group.length === 0 ? 'no groups' : joinFirst(group, groupsShown)
  const of = subscription === undefined ? '' : ` of the Subscription ${subscription}`
  return printable(
    `Asked as ${user}, in ${groups} (--group), who has no active key${of}${asNew ? `:${asNew}` : '.'}`,
  )
}

/** Keys with another result: a key represents the user only if all of the user's keys get the same. */
function showOtherwise({ otherwise = [] }: NonNullable<ExplainResponse['askedAs']>): string {
  if (otherwise.length === 0) return ''
  const shown = otherwise.map(({ keyId, name, code }) => {
    return `${name} (${keyId}), ${code === undefined ? 'allowed' : `refused with ${code}`}`
  })
  return ` Otherwise with ${joinFirst(shown, keysShown)}; --key asks with one of them.`
}

/** docs/table.md explains the reasons. */
function reasonOf({ reason }: NonNullable<ExplainResponse['table']>): string {
  return String(reason).replaceAll('_', ' ')
}

/** Maximum number of groups in one sentence. */
const groupsShown = 10
/** Maximum number of keys in one sentence. */
const keysShown = 3

function showFailure({ reason, detail }: NonNullable<ExplainResponse['backend']>): string {
  return detail === undefined || detail === '' ? reason : `${reason} (${detail})`
}

function showUnlisted({ sent, listed }: NonNullable<ExplainResponse['unlistedName']>): string {
  return (
    `The model's server lists ${listed.join(', ')}, not ${sent}, and may respond with 404: set spec.upstreamModel of the ` +
    'ModelRef to the name that the server uses.'
  )
}

/** The resource, and where it is defined. */
function toCells(head: string, resource: ExplainResponse['steps'][number]['resource']): Cells {
  if (resource === undefined) return { [head]: '', 'DEFINED IN': '' }
  const { kind, namespace, name, file, line } = resource
  const key = namespace === undefined ? name : `${namespace}/${name}`
  return { [head]: `${kind} ${key}`, 'DEFINED IN': file === undefined ? '' : `${file}:${line}` }
}
