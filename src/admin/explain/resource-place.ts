/** A resource in a response, and for administrators where it is written. */

import type { Resource } from '../../kinds/resources.ts'
import { resourceKey } from '../../models/rules/snapshot.ts'
import { optional, string } from '../http/schema.ts'

/** Where a resource (`<kind>/<namespace>/<name>`) is written; in a cluster the line is 0. */
export type Locate = (resource: string) => { readonly file: string; readonly line: number }

/** Schema of the result of `toResourceJson`. */
export const resourceFields = {
  kind: { type: 'string', examples: ['Subscription'] },
  namespace: optional(string('Absent if unknown.')),
  name: { type: 'string' },
  file: optional(string('For administrators, of resources in files.')),
  line: optional({ type: 'integer', minimum: 1 }),
} as const

type Json = Readonly<Record<string, unknown>>

/** A resource by name, and for administrators where it is written. */
export function toResourceJson(resource: Resource, locate: Locate | undefined): Json {
  const { kind, metadata } = resource
  const { namespace, name } = metadata
  return { kind, namespace, name, ...(locate && placeOf(locate, resourceKey(resource))) }
}

/** File and line of a resource (`<kind>/<namespace>/<name>`) that is in a file. */
export function placeOf(locate: Locate, resource: string): Json {
  const { file, line } = locate(resource)
  return line > 0 ? { file, line } : {}
}
