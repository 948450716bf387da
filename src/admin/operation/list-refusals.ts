/**
 * Recent refusals of the gateway: `GET /v1/refusals` lists the caller's (contract, 3.15), and
 * `GET /v1/admin/refusals` all.
 */

import type { FromSchema } from 'json-schema-to-ts'
import type { PastRefusal, RefusalOwner } from '../../decide/past-refusal.ts'
import { toTimestamp } from '../../formats/time.ts'
import type { ExternalDeps } from '../deps.ts'
import { pastRefusal } from '../explain/explain-response.ts'
import { toPastJson } from '../explain/explain-view.ts'
import type { Api } from '../http/api.ts'
import { noteForeignRead, recordForeignRead } from '../http/audit.ts'
import { callerOf } from '../http/authenticate-api.ts'
import { type PageQuery, pageQuery, readPage } from '../http/page.ts'
import { boolean, optional, responses, timestamp } from '../http/schema.ts'

const querystring = { type: 'object', properties: { limit: pageQuery.limit } } as const

const ofAllProcesses =
  'Each process remembers 100 per user; the response combines all processes. `POST /v1/explain` with a `requestId` explains one, step by step.'

const fields = {
  object: { type: 'string', const: 'list' },
  data: { type: 'array', items: pastRefusal },
  complete: boolean('Whether all processes have responded.'),
  since: optional({
    ...timestamp,
    description:
      'When the responding process started, if within the last hour; its earlier refusals are unknown.',
  }),
} as const

const ownSchema = {
  operationId: 'listOwnRefusals',
  summary: 'List your last refusals',
  description: `Your model requests that were refused within the last hour, newest first; with a key only the key's. ${ofAllProcesses}`,
  tags: ['Subscriptions'],
  querystring,
  response: responses('The newest ones.', [400], 'OwnRefusalList', fields),
} as const

const schema = {
  operationId: 'listRefusals',
  summary: 'List the last refusals',
  description: `For administrators: model requests that were refused within the last hour, newest first. ${ofAllProcesses}`,
  tags: ['Administration'],
  security: [{ identityToken: [] }],
  querystring,
  response: responses('The newest ones.', [400], 'RefusalList', {
    ...fields,
    silent: optional({
      type: 'array',
      description:
        'The processes that have not responded; absent if the database cannot list them.',
      items: { type: 'string' },
    }),
  }),
} as const

/** The response for the caller. */
export type OwnRefusalList = FromSchema<(typeof ownSchema.response)[200]>

/** Adds the route. Callers see only their own, administrators too. */
export function listOwnRefusals(app: Api, deps: ExternalDeps): void {
  app.get('/v1/refusals', { schema: ownSchema }, async (request) => {
    const caller = callerOf(request)
    const whose = { user: caller.user, ...(caller.by === 'key' && { keyId: caller.keyId }) }
    return (await readRecent(deps, request.query, whose)).list
  })
}

/** Adds the route, in a scope of administrators. */
export function listRefusals(app: Api, deps: ExternalDeps): void {
  const config = { audit: 'refusals.read' } as const
  app.get('/v1/admin/refusals', { schema, config }, async (request) => {
    const { list, silent } = await readRecent(deps, request.query)
    noteForeignRead(request, {})
    await recordForeignRead(request, list.data.length)
    return { ...list, ...(silent !== undefined && silent.length > 0 && { silent }) }
  })
}

/**
 * The newest refusals of all processes, and the names of processes that did not respond, if all processes are known.
 * Without `whose` it lists all users' refusals, with the fields for administrators.
 */
async function readRecent(
  { clock, pastRefusals, othersRefusals }: ExternalDeps,
  raw: PageQuery,
  whose?: RefusalOwner,
) {
  const { limit } = readPage({ limit: raw.limit })
  const { refusals: reported, silent } = await othersRefusals.recent(limit, whose)
  const all: PastRefusal[] = [...pastRefusals.recent(limit, clock(), whose), ...reported]
  const newest = all.sort((a, b) => b.at - a.at).slice(0, limit)
  const data = newest.map((past) => toPastJson(past, whose === undefined))
  const since = pastRefusals.since(clock())
  const list = {
    object: 'list',
    data,
    complete: silent?.length === 0,
    ...(since !== undefined && { since: toTimestamp(since) }),
  }
  return { list, silent }
}
