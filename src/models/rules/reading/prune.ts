/** Reduces a document to the fields of its schema; the rest is not stored, or not ours to write. */

import { type FieldPath, isObject } from '../../../formats/fields.ts'
import type { Schema } from '../../../formats/schema.ts'

/**
 * A copy with only the schema's fields; calls `onLeft` for each other field. A field that is null
 * is left out, as when it is read. A value of another type stays, so that its reader reports it.
 */
export function pruneToSchema(
  value: unknown,
  schema: Schema,
  onLeft?: (path: FieldPath, value: unknown) => void,
  path: FieldPath = [],
): unknown {
  const { properties, items } = schema
  if (items !== undefined && Array.isArray(value)) {
    return value.map((each, at) =>
      pruneToSchema(each, items, onLeft, onLeft ? [...path, at] : path),
    )
  }
  if (properties === undefined || !isObject(value)) return value
  const kept: Record<string, unknown> = {}
  for (const [name, inside] of Object.entries(value)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined
    const at = onLeft ? [...path, name] : path
    if (known === undefined) onLeft?.(at, inside)
    else if (inside !== null) kept[name] = pruneToSchema(inside, known, onLeft, at)
  }
  return kept
}
