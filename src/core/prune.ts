/** What a schema has of a document: the rest of it is not kept, or not ours to write. */

import { type FieldPath, isObject } from './fields.ts'
import type { Schema } from './schema.ts'

/**
 * A copy with the fields that the schema names alone; `onLeft` is told of each other. A field that is
 * null is left out, as it is read. What has another form stays, for its reader to say so.
 */
export function prune(
  value: unknown,
  schema: Schema,
  onLeft?: (path: FieldPath) => void,
  path: FieldPath = [],
): unknown {
  const { properties, items } = schema
  if (items !== undefined && Array.isArray(value)) {
    return value.map((each, at) => prune(each, items, onLeft, onLeft ? [...path, at] : path))
  }
  if (properties === undefined || !isObject(value)) return value
  const kept: Record<string, unknown> = {}
  for (const [name, inside] of Object.entries(value)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined
    const at = onLeft ? [...path, name] : path
    if (known === undefined) onLeft?.(at)
    else if (inside !== null) kept[name] = prune(inside, known, onLeft, at)
  }
  return kept
}
