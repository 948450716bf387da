/** Fields that define limits, wherever they are written: a misspelt or misplaced limit is never no limit. */

import { type FieldPath, isObject } from '../../../formats/fields.ts'
import { nearestName } from '../../../formats/nearest-name.ts'

/** The fields of a spec that define limits; another calendar begins other counters. */
export const fieldsOfLimits = ['limits', 'calendar'] as const

/** Whether a path leads through one of these fields, even if the field is misspelt. */
export function isLimitPath(path: FieldPath, names: readonly string[] = fieldsOfLimits): boolean {
  return path.some((step) => nearestName(`${step}`, names) !== undefined)
}

/** Whether one of these fields, even misspelt, is in a value at any depth. */
export function containsLimits(value: unknown, names: readonly string[] = fieldsOfLimits): boolean {
  const open = [value]
  // With anchors and aliases a value may be in many places.
  const known = new Set<unknown>()
  while (open.length > 0) {
    const each = open.pop()
    if (typeof each !== 'object' || each === null || known.has(each)) continue
    known.add(each)
    for (const [name, inside] of Object.entries(each)) {
      if (isLimitPath([name], names) && !isOfContainer(inside)) return true
      open.push(inside)
    }
  }
  return false
}

/** Whether these are limits of a container in Kubernetes. */
function isOfContainer(value: unknown): boolean {
  return isObject(value) && (value.cpu !== undefined || value.memory !== undefined)
}
