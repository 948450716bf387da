/**
 * Restores fields that an API server left out of an object. Its definition prunes unknown fields,
 * but `kubectl apply` stores the whole document in an annotation.
 */

import { isObject, valueAt } from '../../../formats/fields.ts'
import type { Schema } from '../../../formats/schema.ts'

const annotation = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * The object with the unknown fields beside and in its `spec` as it was applied, so that they are reported, and
 * a misspelt limit has the same effect as in a file. The object itself if its `spec` has been changed since,
 * or was not applied like this. Never throws.
 */
export function restorePrunedFields(object: unknown, schema: Schema): unknown {
  const text = valueAt(object, ['metadata', 'annotations', annotation])
  if (!isObject(object) || typeof text !== 'string') return object
  const { spec, metadata } = schema.properties ?? {}
  try {
    const applied: unknown = JSON.parse(text)
    if (spec === undefined || !isObject(applied)) return object
    const restored = restore(applied.spec, object.spec, spec)
    const isSame = restored !== undefined || (applied.spec ?? object.spec ?? null) === null
    if (!isSame) return object
    return {
      ...unknownIn(applied, schema),
      ...object,
      ...(metadata && {
        metadata: { ...unknownIn(applied.metadata, metadata), ...(object.metadata as object) },
      }),
      ...(restored !== undefined && { spec: restored }),
    }
  } catch {
    // Anybody may write the annotation: it may not be JSON, or too deep to be written again.
    return object
  }
}

function unknownIn(applied: unknown, { properties = {}, others }: Schema): object {
  if (!isObject(applied)) return {}
  const isUnknown = ([name]: [string, unknown]) =>
    !Object.hasOwn(properties, name) && others?.includes(name) !== true
  return Object.fromEntries(Object.entries(applied).filter(isUnknown))
}

/** Returns undefined if the stored fields are not the applied ones. */
function restore(
  applied: unknown,
  stored: unknown,
  { items, properties, others }: Schema,
): unknown {
  if (Array.isArray(applied) && Array.isArray(stored) && items !== undefined) {
    if (applied.length !== stored.length) return undefined
    const all = applied.map((each, index) => restore(each, stored[index], items))
    return all.includes(undefined) ? undefined : all
  }
  if (properties === undefined || !isObject(applied) || !isObject(stored)) {
    return JSON.stringify(applied) === JSON.stringify(stored) ? stored : undefined
  }
  const all = new Map(Object.entries(stored))
  for (const [name, value] of Object.entries(applied)) {
    if (value === null || others?.includes(name)) continue
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined
    const whole = known === undefined ? value : restore(value, all.get(name), known)
    if (whole === undefined) return undefined
    all.set(name, whole)
  }
  return Object.fromEntries(all)
}
