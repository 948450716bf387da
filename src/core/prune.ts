/** What a schema has of a document, so that nothing else of large objects is kept. */

import { isObject } from './fields.ts'
import type { Schema } from './schema.ts'

/** A copy with the fields that the schema names alone. What has another form stays, for its reader to say so. */
export function prune(value: unknown, schema: Schema): unknown {
  const { properties, items } = schema
  if (items !== undefined && Array.isArray(value)) return value.map((each) => prune(each, items))
  if (properties === undefined || !isObject(value)) return value
  const kept: Record<string, unknown> = {}
  for (const [name, inside] of Object.entries(properties)) {
    if (Object.hasOwn(value, name)) kept[name] = prune(value[name], inside)
  }
  return kept
}
