/**
 * Resources from a cluster, listed and watched: our kinds and the original's, and those of others that
 * tell where models are.
 */

import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Owner } from '../core/generated-policies.ts'
import { prune } from '../core/prune.ts'
import type { Refused } from '../core/refused.ts'
import { documents } from '../core/resource-schemas.ts'
import type { Resource } from '../core/resources.ts'
import { subscriptionNamespace } from '../core/resources.ts'
import type { Schema } from '../core/schema.ts'
import { resourceKey } from '../core/snapshot.ts'
import type { KubeClient } from '../kubernetes/client.ts'
import type { KubeObject } from '../kubernetes/list.ts'
import { type Reflector, startReflector } from '../kubernetes/reflector.ts'
import { collections, type Group, othersCollections, tierMapping } from './collections.ts'
import { type DocumentProblem, type FileProblem, readObject } from './documents.ts'
import { inSlices } from './slices.ts'
import type { Gathered, ResourceSource } from './source.ts'

export interface ClusterSourceOptions {
  readonly client: KubeClient
  /** The groups whose kinds are watched. */
  readonly groups: readonly Group[]
  /** Told when a collection cannot be read, with the reason, and once when it can be again. */
  readonly onProblem: (collection: string, problem: string | undefined) => void
  /** Whether `objects` is kept. */
  readonly keepsObjects?: boolean
  /** For tests: see reflector.ts. */
  readonly absentMs?: number
}

/** An object of our own group, as it was read. */
export interface ClusterObject {
  readonly path: string
  readonly apiVersion: string
  readonly kind: string
  readonly generation: number
  /** Why it is not in force; undefined: it is. */
  readonly problem: string | undefined
  /** As it is now; undefined: it is gone. */
  readonly current: () => KubeObject | undefined
}

export interface ClusterSource extends ResourceSource {
  /** Whether some of it cannot be read now; what was read last stays. */
  readonly isAway: boolean
  /** What the last answer was read from, by `<kind>/<namespace>/<name>`. */
  readonly objects: ReadonlyMap<string, ClusterObject>
  /** The object that a model (`<namespace>/<name>`) was read from. */
  readonly ownerOf: (model: string) => Owner | undefined
}

/** Changes that come together are taken together; milliseconds. */
const settleMs = 25

/** One collection as it is followed. */
interface Watched {
  readonly apiVersion: string
  readonly kind: string
  readonly isOurs: boolean
  /** `subscriptions.tollgate.dev` */
  readonly shown: string
  readonly path: string
  readonly olderPath?: string
  readonly fieldSelector?: string
  readonly labelSelector?: string | undefined
  /** What is kept of an object; with it, the status is read too. */
  readonly keep?: (object: KubeObject) => KubeObject
  reflector?: Reflector
  problem?: string | undefined
  readonly read: WeakMap<KubeObject, ReadObject>
  /** What each key was read as last, since most changes of an object are of its status. */
  readonly last: Map<string, ReadObject>
}

/** What an answer was read from. */
interface Kept {
  readonly objects: Map<string, ClusterObject>
  /** By `<kind>/<namespace>/<name>` of the resource. */
  readonly models: Map<string, () => Owner | undefined>
}

const noObjects = (): Kept => ({ objects: new Map(), models: new Map() })

interface ReadObject {
  readonly signature: string
  readonly key: string | undefined
  readonly resource: Resource | undefined
  readonly problems: readonly DocumentProblem[]
  readonly refused: Refused | undefined
}

/** Starts with the first `next`, and ends with its signal. */
export function createClusterSource(options: ClusterSourceOptions): ClusterSource {
  const watched = watchedOf(options.groups)
  let kept = noObjects()
  let changed = false
  let wake = (): void => {}

  function start(signal: AbortSignal): void {
    signal.addEventListener('abort', () => wake(), { once: true })
    for (const each of watched) {
      each.reflector = startReflector({
        client: options.client,
        path: each.path,
        olderPath: each.olderPath,
        signal,
        fieldSelector: each.fieldSelector,
        labelSelector: each.labelSelector,
        keep: each.keep,
        // These may be as long as the pods that they describe.
        ...(each.keep && { pageSize: 100 }),
        ...(options.absentMs && { absentMs: options.absentMs }),
        onChange(name) {
          if (name !== undefined && isUnchanged(each, name)) return
          changed = true
          wake()
        },
        onProblem(problem) {
          each.problem = problem
          options.onProblem(each.shown, problem)
        },
      })
    }
  }

  const isReady = (): boolean => changed && watched.every(({ reflector }) => reflector?.isSynced)

  return {
    get isAway() {
      return watched.some(({ problem }) => problem !== undefined)
    },
    async next(signal) {
      if (watched[0]?.reflector === undefined) start(signal)
      while (!isReady()) {
        signal.throwIfAborted()
        await new Promise<void>((settle) => {
          wake = settle
        })
      }
      await delay(settleMs, undefined, { signal, ref: false })
      changed = false
      const fresh = options.keepsObjects ? noObjects() : undefined
      const gathered = await inSlices(gather(watched, fresh))
      kept = fresh ?? kept
      return gathered
    },
    get objects() {
      return kept.objects
    },
    ownerOf: (model) =>
      (kept.models.get(`ModelRef/${model}`) ?? kept.models.get(`ExternalModel/${model}`))?.(),
  }
}

function watchedOf(groups: readonly Group[]): readonly Watched[] {
  const found: Watched[] = []
  // Ours count before the original's, in whatever order they were written.
  for (const group of Object.keys(collections) as Group[]) {
    if (!groups.includes(group)) continue
    const apiVersion = `${group}/v1alpha1`
    for (const { kind, plural, isOneNamespace } of collections[group]) {
      const inside = isOneNamespace ? `namespaces/${subscriptionNamespace}/` : ''
      const path = `/apis/${apiVersion}/${inside}${plural}`
      const memory = { read: new WeakMap(), last: new Map() }
      const isOurs = group === 'tollgate.dev'
      found.push({ apiVersion, kind, isOurs, shown: `${plural}.${group}`, path, ...memory })
    }
  }
  for (const other of othersCollections) {
    const { group, versions, kind, plural } = other
    const [version, older] = versions
    found.push({
      apiVersion: `${group}/${version}`,
      kind,
      isOurs: false,
      shown: `${plural}.${group}`,
      path: `/apis/${group}/${version}/${plural}`,
      olderPath: `/apis/${group}/${older}/${plural}`,
      labelSelector: 'labelSelector' in other ? other.labelSelector : undefined,
      keep: (object) => keepRead(object, documents[kind]),
      read: new WeakMap(),
      last: new Map(),
    })
  }
  found.push({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    isOurs: false,
    shown: 'configmaps',
    path: '/api/v1/configmaps',
    fieldSelector: `metadata.name=${tierMapping}`,
    read: new WeakMap(),
    last: new Map(),
  })
  return found
}

/** What is read of it, and what tells it from what it was. */
function keepRead(object: KubeObject, schema: Schema): KubeObject {
  const { uid, resourceVersion } = object.metadata
  const { metadata, ...rest } = prune(object, schema) as KubeObject
  const versions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) }
  return { ...rest, metadata: { ...metadata, ...versions } }
}

/** Reads what has become different. Of two resources with one key the first counts. */
function* gather(watched: readonly Watched[], kept: Kept | undefined): Generator<void, Gathered> {
  const found = new Map<string, { readonly place: string; readonly resource: Resource }>()
  const problems: FileProblem[] = []
  const refused: Refused[] = []
  for (const each of watched) {
    const objects = each.reflector?.objects ?? new Map<string, KubeObject>()
    for (const key of each.last.keys()) if (!objects.has(key)) each.last.delete(key)
    for (const [name, object] of objects) {
      const { key, resource, problems: own, refused: not } = readOne(each, name, object)
      if (not !== undefined) refused.push(not)
      const place = `${each.shown} ${name}`
      if (each.isOurs) kept?.objects.set(`${each.kind}/${name}`, keep(each, name, object, own))
      for (const { severity, message } of own)
        problems.push({ file: place, line: 0, severity, message })
      if (key !== undefined && resource !== undefined) {
        const earlier = found.get(key)
        if (earlier === undefined) {
          found.set(key, { place, resource })
          if (isModel(resource)) kept?.models.set(key, () => toOwner(each, name))
        } else problems.push(shadowed(place, key, earlier.place))
      }
      yield
    }
  }
  const resources: Resource[] = []
  for (const { resource } of found.values()) resources.push(resource)
  return {
    resources,
    problems,
    refused,
    locate: (key, _, message) => ({
      file: found.get(key)?.place ?? '',
      line: 0,
      severity: 'warning',
      message: `${key}: ${message}`,
    }),
  }
}

function isModel({ kind }: Resource): boolean {
  return kind === 'ModelRef' || kind === 'ExternalModel'
}

function toOwner({ apiVersion, kind, reflector }: Watched, key: string): Owner | undefined {
  const { name, uid } = reflector?.objects.get(key)?.metadata ?? {}
  return name === undefined || uid === undefined ? undefined : { apiVersion, kind, name, uid }
}

function keep(
  watched: Watched,
  name: string,
  { metadata }: KubeObject,
  problems: readonly DocumentProblem[],
): ClusterObject {
  const { apiVersion, kind, shown, reflector } = watched
  const plural = shown.slice(0, shown.indexOf('.'))
  return {
    apiVersion,
    kind,
    path: `/apis/${apiVersion}/namespaces/${metadata.namespace}/${plural}/${metadata.name}`,
    generation: metadata.generation ?? 0,
    problem: problems.length === 0 ? undefined : problems.map(({ message }) => message).join('; '),
    current: () => reflector?.objects.get(name),
  }
}

/** Whether an object is read as it was: most changes are of a status, which concerns nobody here. */
function isUnchanged(watched: Watched, name: string): boolean {
  const before = watched.last.get(name)
  const object = watched.reflector?.objects.get(name)
  return (
    before !== undefined &&
    object !== undefined &&
    signatureOf(watched, object) === before.signature
  )
}

function shadowed(place: string, key: string, earlier: string): FileProblem {
  const message = `${key} is there as ${earlier} too, and that one counts`
  return { file: place, line: 0, severity: 'error', message }
}

/** What an object is read as; the same as before when nothing of it but its status is new. */
function readOne(watched: Watched, name: string, object: KubeObject): ReadObject {
  const known = watched.read.get(object)
  if (known !== undefined) return known
  const signature = signatureOf(watched, object)
  const last = watched.last.get(name)
  let read = last
  if (read?.signature !== signature) {
    const { apiVersion, kind } = watched
    const { resource, problems, refused } = readObject({ ...object, apiVersion, kind })
    read = { signature, key: resource && resourceKey(resource), resource, problems, refused }
  }
  watched.last.set(name, read)
  watched.read.set(object, read)
  return read
}

/** All that is read of an object. */
function signatureOf({ keep }: Watched, { metadata, spec, data, status }: KubeObject): string {
  const { uid, annotations, deletionTimestamp, labels } = metadata as Readonly<
    Record<string, unknown>
  >
  const more = keep && [labels, status]
  const text = JSON.stringify([uid, annotations, deletionTimestamp, spec, data, more])
  return hash('sha256', text, 'base64')
}
