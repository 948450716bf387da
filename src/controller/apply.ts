/** Requests of server-side apply, where something of what shall be there is not. */

import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../core/fields.ts'
import type { PolicyObject } from '../core/generated-policies.ts'
import type { ObjectStatus } from '../core/object-status.ts'
import type { KubeRequest } from '../kubernetes/client.ts'
import type { KubeObject } from '../kubernetes/list.ts'

const query = 'fieldManager=tollgate-controller&force=true'

/** An object whose status is meant. */
export interface Place {
  /** Its own path. */
  readonly path: string
  readonly apiVersion: string
  readonly kind: string
}

/** undefined: the object carries this status. */
export function applyStatus(
  { path, apiVersion, kind }: Place,
  { metadata, status: before }: KubeObject,
  status: ObjectStatus,
): KubeRequest | undefined {
  if (carries(before, status)) return undefined
  const { name, namespace } = metadata
  return patch(`${path}/status`, {
    apiVersion,
    kind,
    metadata: { name, ...(namespace !== undefined && { namespace }) },
    status,
  })
}

/** undefined: the object is there and as it shall be. */
export function applyPolicy(
  path: string,
  current: KubeObject | undefined,
  wanted: PolicyObject,
): KubeRequest | undefined {
  const { labels, annotations, ownerReferences } = wanted.metadata
  const before: Readonly<Record<string, unknown>> = { ...current?.metadata }
  const isSame =
    current !== undefined &&
    carries(before.labels, labels) &&
    carries(before.annotations, annotations) &&
    isDeepStrictEqual(before.ownerReferences, ownerReferences) &&
    isDeepStrictEqual(current.spec, wanted.spec)
  return isSame ? undefined : patch(path, { ...wanted })
}

function patch(path: string, body: Readonly<Record<string, unknown>>): KubeRequest {
  const contentType = 'application/apply-patch+yaml'
  return { method: 'PATCH', path: `${path}?${query}`, contentType, body }
}

/** Whether these fields are there as wanted; what others have added is theirs. */
function carries(before: unknown, wanted: object): boolean {
  return (
    isObject(before) &&
    Object.entries(wanted).every(([field, value]) => isDeepStrictEqual(before[field], value))
  )
}
