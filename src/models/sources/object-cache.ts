/** The cluster objects of resources, for those that write to them. */

import type { Owner } from '../../cluster/rules/generated-policies.ts'
import type { KubeObject } from '../../kubernetes/list.ts'
import type { Reflector } from '../../kubernetes/reflector.ts'
import { originalGroup } from '../rules/original/original-kinds.ts'
import type { Group } from './collections.ts'
import type { FileProblem } from './documents.ts'

/** An object with a status, as it was read. */
export interface ClusterObject {
  readonly group: Group
  /** The resource that it is read as: `<kind>/<namespace>/<name>`. */
  readonly resource: string
  readonly path: string
  readonly apiVersion: string
  readonly kind: string
  readonly uid: string | undefined
  readonly generation: number
  readonly isDeleting: boolean
  /** Why it is not in force, or undefined if it is. */
  readonly problem: string | undefined
  /** Its problem, if any, although it is in force. */
  readonly warning: string | undefined
  /** The current object, or undefined if it was deleted. */
  readonly current: () => KubeObject | undefined
}

/** The objects of one gathering. */
export interface ObjectCache {
  /** By `keyOfObject`. */
  readonly objects: Map<string, ClusterObject>
  /** By `<kind>/<namespace>/<name>` of the resource. */
  readonly models: Map<string, () => Owner | undefined>
}

export const createObjectCache = (): ObjectCache => ({ objects: new Map(), models: new Map() })

/** The key of an object: the resource that it is read as, with a prefix if the object is of the original's groups. */
export function keyOfObject(group: Group, resource: string): string {
  return group === originalGroup ? `${group}/${resource}` : resource
}

/** The collection of an object. */
export interface CollectionPlace {
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
  readonly reflector?: Pick<Reflector, 'objects'>
  /** The kind that its objects are read as, if they are recorded for writing their statuses. */
  readonly kept?: { readonly group: Group; readonly readAs: string } | undefined
}

/** Stores the object `<namespace>/<name>` if objects of its collection are stored. */
export function keepObject(
  { objects }: ObjectCache,
  { apiVersion, kind, plural, reflector, kept }: CollectionPlace,
  name: string,
  { metadata }: KubeObject,
  problems: readonly Pick<FileProblem, 'severity' | 'message'>[],
): void {
  if (kept === undefined) return
  const { group, readAs } = kept
  const resource = `${readAs}/${name}`
  objects.set(keyOfObject(group, resource), {
    group,
    resource,
    apiVersion,
    kind,
    path: `/apis/${apiVersion}/namespaces/${metadata.namespace}/${plural}/${metadata.name}`,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    isDeleting: metadata.deletionTimestamp !== undefined,
    problem: joined(problems, 'error'),
    warning: joined(problems, 'warning'),
    current: () => reflector?.objects.get(name),
  })
}

function joined(
  problems: Parameters<typeof keepObject>[4],
  severity: FileProblem['severity'],
): string | undefined {
  const sentences = problems.flatMap((each) => (each.severity === severity ? each.message : []))
  return sentences.length === 0 ? undefined : sentences.join('; ')
}

/** The object `<namespace>/<name>` as an owner reference, or undefined if it was deleted. */
export function toOwner(
  { apiVersion, kind, reflector }: CollectionPlace,
  key: string,
): Owner | undefined {
  const { name, uid } = reflector?.objects.get(key)?.metadata ?? {}
  return name === undefined || uid === undefined ? undefined : { apiVersion, kind, name, uid }
}
