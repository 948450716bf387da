/** The parts of the API's schemas: JSON Schema with types as `FromSchema` reads them. */

import { requiredNames } from '../../formats/schema.ts'

export { optional } from '../../formats/schema.ts'

/** An object with this name in the OpenAPI document; as in resources, fields are there unless they are `optional`. */
export function object<const Fields extends Readonly<Record<string, object>>>(
  title: string,
  properties: Fields,
) {
  return { title, ...unnamed(properties) } as const
}

/** The same without a name. */
export function unnamed<const Fields extends Readonly<Record<string, object>>>(properties: Fields) {
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
