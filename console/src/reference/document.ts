/** The parts of the API's own description (OpenAPI 3.1) that the page shows. */

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema?: Schema
}

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
}

interface Content {
  readonly description?: string
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>
}

export interface Operation {
  readonly method: string
  readonly path: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: Content
  readonly responses?: Readonly<Record<string, Content>>
}

export interface Description {
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> }
}

/** All operations, in the order of the description. */
export function operationsOf({ paths }: Description): readonly Operation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      ...{ method: method.toUpperCase(), path },
    })),
  )
}

/** A field of a body or of an answer. */
export interface Field {
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly about: string
}

export function bodyOf({ content }: Content): Schema | undefined {
  return content?.['application/json']?.schema
}

export function fieldsOf(schema: Schema | undefined, description: Description): readonly Field[] {
  const { properties = {}, required = [] } = resolve(schema, description)
  return Object.entries(properties).map(([name, field]) => ({
    name,
    type: typeOf(field, description),
    isRequired: required.includes(name),
    about: field.description ?? resolve(field, description).description ?? '',
  }))
}

/** `string`, `list of ApiKey`, `one of a, b`. */
export function typeOf(schema: Schema, description: Description): string {
  const [first] = schema.anyOf ?? []
  if (first) return typeOf(first, description)
  const { enum: values, const: value, type, items } = schema
  if (schema.$ref) return schema.$ref.replace(/.*\//, '')
  if (values) return `one of ${values.filter((each) => each !== null).join(', ')}`
  if (value !== undefined) return JSON.stringify(value)
  if (items) return `list of ${typeOf(items, description)}`
  return [type ?? 'object']
    .flat()
    .filter((each) => each !== 'null')
    .join(' or ')
}

const maxDepth = 4

/** A body that may be sent after some changes. */
export function exampleOf(
  schema: Schema | undefined,
  description: Description,
  depth = 0,
): unknown {
  const { examples, default: value, properties, items, ...found } = resolve(schema, description)
  if (examples?.[0] !== undefined) return examples[0]
  if (value !== undefined) return value
  if (found.const !== undefined) return found.const
  if (found.enum) return found.enum[0]
  if (properties && depth < maxDepth) {
    const { required = [] } = found
    const shown = Object.entries(properties).filter(
      ([name, each]) => required.includes(name) || resolve(each, description).examples,
    )
    return Object.fromEntries(
      shown.map(([name, each]) => [name, exampleOf(each, description, depth + 1)]),
    )
  }
  if (items && depth < maxDepth) return [exampleOf(items, description, depth + 1)]
  const [type] = [found.type ?? 'object'].flat()
  return { string: '', integer: 0, number: 0, boolean: false, array: [] }[type ?? ''] ?? {}
}

function resolve(schema: Schema | undefined, description: Description): Schema {
  const [first] = schema?.anyOf ?? []
  const { $ref, ...own } = first ?? schema ?? {}
  if ($ref === undefined) return own
  return { ...description.components?.schemas?.[$ref.replace(/.*\//, '')], ...own }
}
