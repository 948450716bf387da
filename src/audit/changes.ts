/** The changes between two sets of resources, for the audit trail. */

import { isDeepStrictEqual } from 'node:util'
import type { Resource } from '../kinds/resources.ts'
import { resourceKey } from '../models/rules/snapshot.ts'
import type { ResourceChange } from './event.ts'

type Known = ReadonlyMap<string, Resource>

/** By kind and name, as `<kind>/<namespace>/<name>`. */
export function resourcesByName(resources: readonly Resource[]): Known {
  return new Map(resources.map((resource) => [resourceKey(resource), resource]))
}

/** The differences: added and changed resources as in `after`, then removed ones. */
export function changesOf(before: Known, after: Known): readonly ResourceChange[] {
  const changes: ResourceChange[] = []
  for (const [resource, now] of after) {
    const was = before.get(resource)
    if (was === undefined) changes.push({ change: 'added', resource })
    else if (!isDeepStrictEqual(was, now)) changes.push({ change: 'changed', resource })
  }
  for (const resource of before.keys()) {
    if (!after.has(resource)) changes.push({ change: 'removed', resource })
  }
  return changes
}

/** Splits the changes into parts of at most this many characters, so that each line is written whole. */
export function inParts(
  changes: readonly ResourceChange[],
  maxLength = 3_000,
): readonly (readonly ResourceChange[])[] {
  const parts: ResourceChange[][] = []
  let size = Number.POSITIVE_INFINITY
  for (const each of changes) {
    const length = each.resource.length + 40
    if (size + length > maxLength) {
      parts.push([])
      size = 0
    }
    parts.at(-1)?.push(each)
    size += length
  }
  return parts
}
