/** The parts of the API's schemas: JSON Schema with types as `FromSchema` reads them. */

import { publicCodes } from '../../formats/errors.ts'
import { optional, requiredNames } from '../../formats/schema.ts'

export { optional }

/** An object with this name in the OpenAPI document; as in resources, fields are there unless they are `optional`. */
export function object<const Fields extends Readonly<Record<string, object>>>(
  title: string,
  properties: Fields,
) {
  return { title, ...untitledObject(properties) } as const
}

/** An object without a name. */
export function untitledObject<const Fields extends Readonly<Record<string, object>>>(
  properties: Fields,
) {
  return { type: 'object', required: requiredNames(properties), properties } as const
}

/** A list of such objects. */
export function objects<const Fields extends Readonly<Record<string, object>>>(
  title: string,
  properties: Fields,
) {
  return { type: 'array', items: object(title, properties) } as const
}

/** Schemas of single values that say what they are; `More`: what else holds for them. */
export const string = describing('string')
export const boolean = describing('boolean')
export const integer = describing('integer')

function describing<const Type extends string>(type: Type) {
  return <const More extends object = object>(description: string, more = {} as More) =>
    ({ type, description, ...more }) as const
}

/** A list of texts that says what they are. */
export function strings<const More extends object = object>(
  description: string,
  more = {} as More,
) {
  return { type: 'array', items: { type: 'string' }, description, ...more } as const
}

export const timestamp = string('RFC 3339, UTC, whole seconds.', {
  format: 'date-time',
  examples: ['2026-03-01T12:00:00Z'],
})

export const nullableTimestamp = { ...timestamp, type: ['string', 'null'] } as const

export const labelsSchema = {
  title: 'Labels',
  type: 'object',
  additionalProperties: { type: 'string' },
  description: 'Absent if empty.',
} as const

/** The envelope of every refusal (contract, 1.3). */
export const errorEnvelope = object('Refusal', {
  error: object('RefusalReason', {
    message: string('For people; may change.'),
    type: string('The class of the error.'),
    code: optional(string('For programs; stable. There may be more.', { enum: publicCodes() })),
  }),
})

const meanings = {
  400: 'The request is malformed; the message names the field and the correction.',
  401: 'The credential is missing or not valid.',
  403: 'The caller may not do this.',
  404: 'It does not exist, or the caller may not see it.',
  413: 'The body is larger than 1 MiB.',
  422: 'This Idempotency-Key belongs to a request with another body.',
  429: 'Too many requests; retry-after says when to retry.',
  500: 'An internal error.',
  503: 'The key store is unavailable; retry after the time in retry-after.',
} as const

type Refusal = keyof typeof meanings

/** The refusals of an endpoint, for its `response` schema. */
export function refusals(
  ...statuses: readonly Refusal[]
): Record<number, typeof errorEnvelope & { readonly description: string }> {
  return Object.fromEntries(
    statuses.map((status) => [status, { ...errorEnvelope, description: meanings[status] }]),
  )
}

/** The refusals of every route for callers; 403 also for a key that is bound to other addresses. */
const ofCallers = [401, 403, 429, 500, 503] as const

/** The `response` of a route for callers: an object, and the route's refusals in addition to every route's. */
export function responses<const Fields extends Readonly<Record<string, object>>>(
  description: string,
  refused: readonly Refusal[],
  title: string,
  fields: Fields,
) {
  return responsesWith(description, refused, object(title, fields))
}

/** `responses` for any schema. */
export function responsesWith<Schema extends object>(
  description: string,
  refused: readonly Refusal[],
  schema: Schema,
) {
  return { 200: { description, ...schema }, ...refusals(...ofCallers, ...refused) } as const
}
