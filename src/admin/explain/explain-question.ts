/** The body of `POST /v1/explain`: who would ask for what, or which refusal is meant. */

import type { PastRefusal } from '../../decide/past-refusal.ts'
import { invalidRequest } from '../../formats/errors.ts'
import { parseClientAddress } from '../../formats/headers.ts'
import { dayMs } from '../../formats/time.ts'
import type { Caller, TokenCaller } from '../../identity/rules/caller.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { meterable } from '../../operations/operations.ts'
import { type BodyOf, requirePlainText } from '../http/body.ts'
import { timestamp } from '../http/schema.ts'

const text = { type: ['string', 'null'], minLength: 1, maxLength: 2_048 } as const

export const questionSchema = {
  title: 'ExplainRequest',
  type: 'object',
  additionalProperties: false,
  properties: {
    requestId: {
      ...text,
      description:
        'The x-request-id of a request that was refused within the last hour; the only field then.',
    },
    keyId: {
      ...text,
      description:
        'The key with which the request would be made: one of your own, or for administrators any key.',
    },
    user: {
      ...text,
      description:
        'For administrators: the user who would make the request, with their newest active key that is not ephemeral, or else with a new key with these groups. Without keyId and user, the caller would make it; if an identity token does not suffice, also with such a key.',
    },
    groups: { type: ['array', 'null'], maxItems: 1_000, items: { type: 'string' } },
    subscription: {
      ...text,
      description:
        'As in x-maas-subscription; a key always uses its own. Without keyId, the subscription of the key to assume.',
    },
    model: {
      ...text,
      description: "<namespace>/<name>, or a name as in a request's body.",
      examples: ['llm/sim-small'],
    },
    path: {
      ...text,
      description: 'The path at the gateway, if it is not the one for chats.',
      examples: ['/llm/sim-small/v1/embeddings'],
    },
    method: { ...text, default: 'POST', description: 'The HTTP method.' },
    address: {
      ...text,
      description:
        "The client's address, for a key with allowedAddresses; without it they are not checked.",
      examples: ['192.0.2.1'],
    },
    at: {
      ...timestamp,
      type: ['string', 'null'],
      description:
        'The time of the request; by default now. It is assumed that nothing else is used until then.',
    },
  },
} as const

type ExplainBody = BodyOf<typeof questionSchema>

/** A request that may never have been made. */
export type Hypothetical = Pick<
  PastRefusal,
  'method' | 'path' | 'bodyModel' | 'requestedSubscription' | 'address'
>

export interface Question extends Hypothetical {
  readonly keyId: string | undefined
  /** The person who asks, without a keyId. */
  readonly person: Caller
  /** `person`, if `user` is given. */
  readonly named: TokenCaller | undefined
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** How far ahead `at` may be. */
const maxAheadMs = 366 * dayMs

/** Reads the body; throws `invalid_request`, naming the field. */
export function readQuestion(
  body: ExplainBody,
  caller: Caller,
  { models }: Snapshot,
  now: number,
): Question | { readonly requestId: string } {
  const given = Object.entries(body).filter(([, value]) => value !== null && value !== undefined)
  for (const [field, value] of given) if (typeof value === 'string') requirePlainText(field, value)
  const { requestId, keyId, user, groups, subscription, model, path } = body
  if (requestId) {
    if (given.length > 1)
      throw invalidRequest('requestId cannot be combined with other fields; leave the others out.')
    return { requestId }
  }
  if (keyId && (user || groups)) throw invalidRequest('Give either keyId, or user and groups.')
  if (Boolean(user) !== Boolean(groups)) throw invalidRequest('user and groups belong together.')
  if (!model && !path) throw invalidRequest('Name the model or the path.')
  if (path && !path.startsWith('/')) throw invalidRequest('path must begin with a slash.')
  const address = body.address ? parseClientAddress(body.address) : undefined
  if (body.address && address === undefined) throw invalidRequest('address must be an IP address.')
  const named = user ? personOf(user, groups ?? []) : undefined
  // The name of a ModelRef asks about its own path, where a body would have to name the model as its server does.
  const isRef = !path && model ? models.has(model) : false
  return {
    keyId: keyId ?? undefined,
    person: named ?? caller,
    named,
    method: body.method ?? 'POST',
    path: path ?? (isRef ? `/${model}${meterable.chat}` : meterable.chat),
    bodyModel: isRef ? undefined : (model ?? undefined),
    requestedSubscription: subscription ?? undefined,
    address,
    at: readInstant(body.at ?? undefined, now),
  }
}

function personOf(user: string, groups: readonly string[]): TokenCaller {
  return { by: 'token', proof: { by: 'file' }, user, groups }
}

function readInstant(raw: string | undefined, now: number): number {
  if (raw === undefined) return now
  const at = Date.parse(raw)
  if (Number.isNaN(at))
    throw invalidRequest('at must be an RFC 3339 time like 2026-03-01T12:00:00Z.')
  // Times are written in whole seconds, so this may be the current one.
  if (at < now - 1_000)
    throw invalidRequest(
      'at must not be in the past; to explain a refusal of the last hour, give its requestId.',
    )
  if (at > now + maxAheadMs) throw invalidRequest('at must be at most a year from now.')
  return Math.max(at, now)
}
