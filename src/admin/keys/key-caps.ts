/** Caps of a key in requests and records (contract, 3.2.3): their schemas, and which may be set. */

import { invalidRequest } from '../../formats/errors.ts'
import { toQuoted } from '../../formats/quoted.ts'
import {
  capNames,
  type KeyCaps,
  maxCaps,
  modelKeyOf,
  problemOfCaps,
} from '../../keys/rules/key-caps.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { integer, object, optional, string } from '../http/schema.ts'

const maxNameLength = 253

const models = {
  items: {
    additionalProperties: false,
    ...object('KeyModel', {
      namespace: { type: 'string', maxLength: maxNameLength },
      name: { type: 'string', maxLength: maxNameLength },
    }),
  },
  description: 'The only models of its subscription that the key may call.',
  examples: [[{ namespace: 'llm', name: 'sim-small' }]],
} as const

const tokenRateLimits = {
  items: {
    additionalProperties: false,
    ...object('KeyLimit', {
      limit: integer('Tokens.', { examples: [1_000] }),
      window: string('As in a Subscription.', { maxLength: 16, examples: ['1m'] }),
    }),
  },
  description:
    "Limits on the key's own tokens, of all its models together, beside those of its subscription.",
} as const

const allowedAddresses = {
  items: { type: 'string', maxLength: 64 },
  description: 'The only networks that the key may be used from, in CIDR notation.',
  examples: [['192.0.2.0/24', '2001:db8::/32']],
} as const

/** In a request; null stands for no cap. */
export const capFields = {
  models: { ...models, type: ['array', 'null'], maxItems: maxCaps.models },
  tokenRateLimits: {
    ...tokenRateLimits,
    type: ['array', 'null'],
    maxItems: maxCaps.tokenRateLimits,
  },
  allowedAddresses: {
    ...allowedAddresses,
    type: ['array', 'null'],
    maxItems: maxCaps.allowedAddresses,
  },
} as const

/** In a record; left out if nothing is capped. */
export const capSchemas = {
  models: optional({ ...models, type: 'array' }),
  tokenRateLimits: optional({ ...tokenRateLimits, type: 'array' }),
  allowedAddresses: optional({ ...allowedAddresses, type: 'array' }),
} as const

/** As written in a request. */
export type WrittenCaps = { readonly [Name in keyof KeyCaps]?: KeyCaps[Name] | null | undefined }

/** Whether a request names a cap. */
export function namesCaps(body: WrittenCaps): boolean {
  return capNames.some((name) => body[name] !== undefined)
}

/**
 * The caps `from` with those of the request. Throws `invalid_request` naming the field, also for a
 * model that `from` lacks and the subscription does not cover.
 */
export function readCaps(
  body: WrittenCaps,
  from: KeyCaps,
  subscription: string,
  { subscriptions }: Snapshot,
): KeyCaps {
  const caps: KeyCaps = Object.fromEntries(
    capNames.flatMap((name) => {
      const value = body[name] === undefined ? from[name] : body[name]
      return value ? [[name, value]] : []
    }),
  )
  const problem = problemOfCaps(caps)
  if (problem !== undefined) throw invalidRequest(problem)
  const known = new Set(from.models?.map(modelKeyOf))
  const covered = subscriptions.get(subscription)?.limits
  for (const [i, model] of (caps.models ?? []).entries()) {
    const key = modelKeyOf(model)
    if (known.has(key) || covered?.has(key)) continue
    throw invalidRequest(
      `models[${i}]: the subscription ${toQuoted(subscription)} does not cover ${toQuoted(key)}.`,
    )
  }
  return caps
}
