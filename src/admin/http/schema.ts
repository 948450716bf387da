/** The parts of the API's schemas. Fields of an object are all there, but for those that are marked. */

const mark = Symbol('may be left out')

interface Optional {
  readonly [mark]: true
}

/** The schema of a field that an object may lack. The mark is a symbol, which no reader of schemas sees. */
export function optional<const Schema extends object>(schema: Schema): Schema & Optional {
  return { ...schema, [mark]: true }
}

type Required<Fields> = {
  [Name in keyof Fields & string]: Fields[Name] extends Optional ? never : Name
}[keyof Fields & string]

/** An object with this name in the OpenAPI document. */
export function object<const Fields extends Readonly<Record<string, object>>>(
  title: string,
  properties: Fields,
) {
  const required = Object.entries(properties).flatMap(([name, field]) =>
    mark in field ? [] : [name as Required<Fields>],
  )
  return { title, type: 'object', required, properties } as const
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
