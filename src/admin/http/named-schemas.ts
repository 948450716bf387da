/**
 * Names for the schemas of the OpenAPI document. A schema with a `title` appears once, under that
 * name, so that a generated client has one type for all its uses.
 */

import { isObject } from '../../formats/fields.ts'

type Json = Record<string, unknown>

/** The type for the document alone, if our refusal is more precise than a schema's. */
export const typeInDocument = 'x-type'

/**
 * Moves schemas with a title to `components.schemas`. Nullable ones are moved without null. Throws
 * if two with one title differ in more than their description.
 */
export function nameSchemas(document: { components?: object; paths?: unknown }): void {
  const named = new Map<string, Json>()

  function refer(schema: Json, title: string): Json {
    const { title: _, description, ...rest } = schema
    const before = named.get(title)
    if (before === undefined) named.set(title, { title, ...rest })
    else if (!isSame(before, { title, ...rest })) throw new Error(`two schemas are ${title}`)
    return { $ref: `#/components/schemas/${title}` }
  }

  /** `isRoot`: no surrounding schema could make it nullable or optional. */
  function walk(value: unknown, isRoot = false): unknown {
    if (Array.isArray(value)) return value.map((each) => walk(each))
    if (!isObject(value)) return value
    const entries = Object.entries(value).map(([key, each]) => [key, walk(each, key === 'schema')])
    const { [typeInDocument]: type, ...schema } = ofOneValue(Object.fromEntries(entries))
    if (type !== undefined) return { ...schema, type }
    const { title } = schema
    if (typeof title !== 'string' || schema.type === undefined) return schema
    if (!Array.isArray(schema.type)) return refer(schema, title)
    const ofValue = schema.type.find((each) => each !== 'null')
    const reference = refer({ ...withoutNull(schema), type: ofValue }, title)
    return isRoot ? reference : { anyOf: [reference, { type: 'null' }] }
  }

  document.paths = walk(document.paths)
  const schemas = Object.fromEntries([...named].sort(([a], [b]) => (a < b ? -1 : 1)))
  document.components = { ...document.components, schemas }
}

/** Generators make a type of every enum, even with one value. */
function ofOneValue({ enum: values, ...schema }: Json): Json {
  if (Array.isArray(values) && values.length === 1) return { ...schema, const: values[0] }
  return values === undefined ? schema : { ...schema, enum: values }
}

function withoutNull(schema: Json): Json {
  const { enum: values } = schema
  return Array.isArray(values) ? { ...schema, enum: values.filter((v) => v !== null) } : schema
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}
