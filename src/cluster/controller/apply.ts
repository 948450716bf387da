/** The requests that bring an object to its desired state, if it differs. */

import { isDeepStrictEqual } from 'node:util'
import { isObject, type JsonObject } from '../../formats/fields.ts'
import type { KubeRequest } from '../../kubernetes/client.ts'
import type { KubeObject } from '../../kubernetes/list.ts'
import type { ClusterObject } from '../../models/sources/object-cache.ts'
import type { PolicyObject } from '../rules/generated-policies.ts'
import type { ObjectStatus } from '../rules/object-status.ts'

const manager = 'fieldManager=tollgate-controller'

/** Undefined if the object at `path` has this status already. */
export function applyStatus(
  { path, apiVersion, kind }: Pick<ClusterObject, 'path' | 'apiVersion' | 'kind'>,
  { metadata, status: before }: KubeObject,
  status: ObjectStatus,
): KubeRequest | undefined {
  if (carries(before, status)) return undefined
  // An apply removes no field that another manager has written, too.
  const gone = nulls(before, (field) => field in status && status[field] === undefined)
  if (Object.keys(gone).length > 0)
    return mergePatch(`${path}/status`, { status: { ...status, ...gone } })
  const { name, namespace } = metadata
  return patch(`${path}/status`, {
    apiVersion,
    kind,
    metadata: { name, ...(namespace !== undefined && { namespace }) },
    status,
  })
}

/** Undefined if the object exists and has the desired state. */
export function applyPolicy(
  path: string,
  current: KubeObject | undefined,
  desired: PolicyObject,
): KubeRequest | undefined {
  const { labels, annotations, ownerReferences } = desired.metadata
  const before: Readonly<Record<string, unknown>> = { ...current?.metadata }
  const isSame =
    current !== undefined &&
    carries(before.labels, labels) &&
    carries(before.annotations, annotations) &&
    isDeepStrictEqual(before.ownerReferences, ownerReferences) &&
    isDeepStrictEqual(current.spec, desired.spec)
  return isSame ? undefined : patch(path, { ...desired })
}

/**
 * Replaces the whole status, including what another controller has written. Returns undefined if nothing
 * differs. A 409 means that the object has changed since it was read.
 */
export function replaceStatus(
  path: string,
  { metadata: { resourceVersion }, status: before }: KubeObject,
  status: Readonly<Record<string, unknown>>,
): KubeRequest | undefined {
  if (isDeepStrictEqual(before, status)) return undefined
  return mergePatch(`${path}/status`, {
    metadata: { resourceVersion },
    status: { ...nulls(before, (field) => !(field in status)), ...status },
  })
}

/**
 * Removes the finalizers of a group (`<group>/<name>`) from an object that is being deleted, and keeps others. Returns
 * undefined if there are none. A 409 means that the object has changed since it was read.
 */
export function removeFinalizers(
  path: string,
  group: string,
  { metadata: { deletionTimestamp, finalizers, resourceVersion } }: KubeObject,
): KubeRequest | undefined {
  if (deletionTimestamp === undefined || !Array.isArray(finalizers)) return undefined
  const others = finalizers.filter((each) => !String(each).startsWith(`${group}/`))
  if (others.length === finalizers.length) return undefined
  return mergePatch(path, { metadata: { resourceVersion, finalizers: others } })
}

function patch(path: string, body: JsonObject): KubeRequest {
  const contentType = 'application/apply-patch+yaml'
  return { method: 'PATCH', path: `${path}?${manager}&force=true`, contentType, body }
}

function mergePatch(path: string, body: JsonObject): KubeRequest {
  const contentType = 'application/merge-patch+json'
  return { method: 'PATCH', path: `${path}?${manager}`, contentType, body }
}

/** What removes these fields of a status in a merge patch. */
function nulls(status: unknown, isGone: (field: string) => boolean) {
  const fields = Object.keys(isObject(status) ? status : {}).filter(isGone)
  return Object.fromEntries(fields.map((field) => [field, null]))
}

/** Whether these fields have the desired values; additional fields are left to their writers. */
function carries(before: unknown, desired: object): boolean {
  return (
    isObject(before) &&
    Object.entries(desired).every(([field, value]) => isDeepStrictEqual(before[field], value))
  )
}
