/** The merge keys of YAML (`<<: *defaults`), which parsers of YAML 1.2 leave as fields. */

import { isObject } from './fields.ts'

/** Maximum number of merged fields in one document; more is an attack, not a resource. */
const maxMerged = 100_000

/**
 * The value with each `<<` replaced by the fields of the object, or the objects, that it names: own fields take
 * precedence, then the fields of earlier objects. Throws if it names anything else, or too much.
 */
export function mergeKeys(value: unknown): unknown {
  const merged = new Map<object, unknown>()
  let left = maxMerged

  function merge(each: unknown): unknown {
    if (typeof each !== 'object' || each === null) return each
    if (merged.has(each)) return merged.get(each)
    // Registered before its content, because an object may contain itself through an alias.
    if (Array.isArray(each)) {
      const items: unknown[] = []
      merged.set(each, items)
      for (const item of each) items.push(merge(item))
      return items
    }
    const fields: Record<string, unknown> = {}
    merged.set(each, fields)
    for (const [name, inside] of Object.entries(each)) {
      if (name !== '<<') set(fields, name, merge(inside))
    }
    if (Object.hasOwn(each, '<<')) mergeInto(fields, (each as { '<<': unknown })['<<'])
    return fields
  }

  function mergeInto(fields: Record<string, unknown>, named: unknown): void {
    for (const source of Array.isArray(named) ? named : [named]) {
      const from = merge(source)
      if (!isObject(from)) throw new Error('<< must name an object, or a list of objects')
      for (const [name, inside] of Object.entries(from)) {
        left -= 1
        if (left < 0) throw new Error(`<< merges more than ${maxMerged} fields`)
        if (!Object.hasOwn(fields, name)) set(fields, name, inside)
      }
    }
  }

  return merge(value)
}

/** `__proto__` is an ordinary field, too. */
function set(fields: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(fields, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  })
}
