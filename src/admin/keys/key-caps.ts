/** Caps of a key in requests and records (contract, 3.2.3): their schemas, and which may be set. */

import { invalidRequest } from '../../formats/errors.ts'
import { quoteName } from '../../formats/redact.ts'
import { capNames, type KeyCaps, maxCaps, problemOfCaps } from '../../keys/rules/key-caps.ts'
import { limitKinds } from '../../kinds/limits.ts'
import { keyOfModel, type ModelReference } from '../../kinds/resources.ts'
import type { Snapshot } from '../../models/rules/snapshot.ts'
import { boolean, integer, object, optional, string } from '../http/schema.ts'

const maxNameLength = 253

const model = {
  additionalProperties: false,
  ...object('KeyModel', {
    namespace: { type: 'string', maxLength: maxNameLength },
    name: { type: 'string', maxLength: maxNameLength },
  }),
} as const

const models = {
  items: model,
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
    "Limits on the key's own tokens, for all its models together, in addition to its subscription's limits.",
} as const

/** Whose values problemOfCaps checks, with better messages than a schema. */
const limits = {
  items: {
    additionalProperties: false,
    ...object('KeyNamedLimit', {
      name: string('A DNS label, used in refusals and counters.', {
        maxLength: 63,
        examples: ['daily'],
      }),
      of: optional(string('What is counted; tokens by default.', { enum: limitKinds })),
      limit: {
        type: ['integer', 'string'],
        description:
          'For tokens, requests or requests in progress a whole number; for cost a decimal number as a string, in BILLING_CURRENCY.',
        maxLength: 32,
        examples: ['5', 1_000_000],
      },
      window: optional(
        string('Such as 1h, or day, week or month of the calendar; absent for concurrency.', {
          maxLength: 16,
          examples: ['day'],
        }),
      ),
      models: optional({
        type: 'array',
        items: model,
        maxItems: maxCaps.models,
        description: 'The models whose use it counts together; by default all.',
      }),
      enforce: optional(
        boolean(
          'Whether it refuses requests (the default); otherwise it is only counted and shown.',
        ),
      ),
    }),
  },
  description:
    "Further limits on the key's own use, as limits of a Subscription whose counters are the key's.",
} as const

const allowedAddresses = {
  items: { type: 'string', maxLength: 64 },
  description: 'The only networks that the key may be used from, in CIDR notation.',
  examples: [['192.0.2.0/24', '2001:db8::/32']],
} as const

/** In a request; null stands for no cap. */
export const capFields = {
  models: requested(models, maxCaps.models),
  tokenRateLimits: requested(tokenRateLimits, maxCaps.tokenRateLimits),
  limits: requested(limits, maxCaps.limits),
  allowedAddresses: requested(allowedAddresses, maxCaps.allowedAddresses),
} as const

function requested<const Cap extends object>(cap: Cap, maxItems: number) {
  return { ...cap, type: ['array', 'null'], maxItems } as const
}

/** In a record; left out if nothing is capped. */
export const capSchemas = {
  models: optional({ ...models, type: 'array' }),
  tokenRateLimits: optional({ ...tokenRateLimits, type: 'array' }),
  limits: optional({ ...limits, type: 'array' }),
  allowedAddresses: optional({ ...allowedAddresses, type: 'array' }),
} as const

/** As written in a request. */
type WrittenCaps = { readonly [Name in keyof KeyCaps]?: KeyCaps[Name] | null | undefined }

/** Whether a request names a cap. */
export function hasCapFields(body: WrittenCaps): boolean {
  return capNames.some((name) => body[name] !== undefined)
}

/**
 * The caps `from`, changed as requested. Throws `invalid_request` naming the field, also for a
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
  const known = new Set(modelsIn(from).map(([, key]) => key))
  const covered = subscriptions.get(subscription)?.limits
  for (const [at, key] of modelsIn(caps)) {
    if (known.has(key) || covered?.has(key)) continue
    throw invalidRequest(
      `${at}: the subscription ${quoteName(subscription)} does not cover ${quoteName(key)}.`,
    )
  }
  return caps
}

/** Where they name models, and which. */
function modelsIn({ models = [], limits = [] }: KeyCaps): readonly (readonly [string, string])[] {
  const entries = (at: string, list: readonly ModelReference[]) =>
    list.map((each, i) => [`${at}[${i}]`, keyOfModel(each)] as const)
  const ofLimits = limits.flatMap(({ models = [] }, i) => entries(`limits[${i}].models`, models))
  return [...entries('models', models), ...ofLimits]
}
