/**
 * Resources from a cluster, listed and watched: our kinds, the original's, and the foreign kinds that locate models.
 */

import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Owner } from '../../cluster/rules/generated-policies.ts'
import { isObject, type JsonObject } from '../../formats/fields.ts'
import type { Schema } from '../../formats/schema.ts'
import { subscriptionNamespace } from '../../kinds/metadata.ts'
import { documentSchemas } from '../../kinds/resource-schemas.ts'
import type { Resource } from '../../kinds/resources.ts'
import type { KubeClient } from '../../kubernetes/client.ts'
import { isServed, type KubeObject } from '../../kubernetes/list.ts'
import {
  type Reflector,
  type ReflectorOptions,
  startReflector,
} from '../../kubernetes/reflector.ts'
import { errorMessage } from '../../runtime/error-message.ts'
import { createRestTimer, type RestTimer } from '../../runtime/loop.ts'
import { runInThread } from '../../runtime/run-in-thread.ts'
import { inSlices } from '../../runtime/slices.ts'
import { kindsWithoutStatus } from '../rules/original/original-kinds.ts'
import { tierMapping } from '../rules/original/tiers.ts'
import { pruneToSchema } from '../rules/reading/prune.ts'
import type { RefusedResource } from '../rules/refused-resources.ts'
import { resourceKey } from '../rules/snapshot.ts'
import { type Collection, collections, type Group, othersCollections } from './collections.ts'
import { type FileProblem, maxSliceText, parseObjectResource } from './documents.ts'
import {
  type ClusterObject,
  type CollectionPlace,
  createObjectCache,
  keepObject,
  type ObjectCache,
  toOwner,
} from './object-cache.ts'
import { createResourceGatherer } from './resource-gatherer.ts'
import type { Contents } from './resource-source.ts'
import { duplicateOutcome } from './unreadable-tenant.ts'

interface ClusterSourceOptions {
  readonly client: KubeClient
  /** The groups whose kinds are watched. */
  readonly groups: readonly Group[]
  /** Called when a collection cannot be read, with the reason, and once when it can be again. */
  readonly onProblem: (collection: string, problem: string | undefined) => void
  /** The groups whose objects `objects` has. If undefined, there is neither `objects` nor `ownerOf`. */
  readonly keepsObjectsOf?: readonly Group[]
  /** For tests: see reflector.ts. */
  readonly absentMs?: number
}

export type ClusterSource = ReturnType<typeof createClusterSource>

/** Changes within this time are applied together; milliseconds. */
const settleMs = 25

const worker = new URL('./document-worker.ts', import.meta.url)
/** Tiers are YAML of whoever may write ConfigMaps: longer ones are parsed in another thread. */
const longTiers = 2_048
/** The administrators' tier mapping: while it exists, those of other namespaces are not parsed. */
const firstMapping = `${subscriptionNamespace}/${tierMapping}`
const duplicateMapping: Reading = {
  problems: [
    {
      path: [],
      severity: 'warning',
      message: `ConfigMap ${tierMapping}: is a duplicate ConfigMap and ignored; ${firstMapping} comes first`,
    },
  ],
}

/** A collection that is followed. */
interface Watched
  extends CollectionPlace,
    Pick<ReflectorOptions, 'path' | 'olderPath' | 'fieldSelector' | 'labelSelector'> {
  readonly from: 'us' | 'the original' | 'others'
  /** `subscriptions.tollgate.dev` */
  readonly shown: string
  /** Reduces an object to the parts to store; if set, the status is read too. */
  readonly keep?: (object: KubeObject) => KubeObject
  reflector?: Reflector
  problem?: string | undefined
  /** The last result for each key, because most changes of an object are of its status. */
  readonly last: Map<string, ReadObject>
}

interface ReadObject extends Reading {
  readonly object: KubeObject
  readonly signature: string
}

type Reading = ReturnType<typeof parseObjectResource>

/** Starts with the first `next`, and ends with its signal. */
export function createClusterSource(options: ClusterSourceOptions) {
  const watched = watchedOf(options)
  let kept = createObjectCache()
  let changed = false
  let alarm: RestTimer | undefined

  function start(signal: AbortSignal): void {
    alarm = createRestTimer(signal)
    for (const each of watched) {
      each.reflector = startReflector({
        ...each,
        client: options.client,
        signal,
        isNeeded: () => isNeeded(options.client, each),
        // These may be as long as the pods that they describe.
        ...(each.keep && { pageSize: 100 }),
        ...(options.absentMs && { absentMs: options.absentMs }),
        onChange(name) {
          if (name !== undefined && isUnchanged(each, name)) return
          changed = true
          alarm?.ring()
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
    /** Whether a part of the cluster cannot be read now; the last state stays. */
    get isUnavailable(): boolean {
      return watched.some(({ problem }) => problem !== undefined)
    },
    async next(signal: AbortSignal): Promise<Contents> {
      if (watched[0]?.reflector === undefined) start(signal)
      while (!isReady()) {
        signal.throwIfAborted()
        await alarm?.rest(undefined)
      }
      await delay(settleMs, undefined, { signal, ref: false })
      changed = false
      const fresh = options.keepsObjectsOf && createObjectCache()
      const gathered = await inSlices(gather(watched, fresh))
      kept = fresh ?? kept
      return gathered
    },
    /** The objects of the last result, by `keyOfObject`. */
    get objects(): ReadonlyMap<string, ClusterObject> {
      return kept.objects
    },
    /** The object of a model (`<namespace>/<name>`). */
    ownerOf: (model: string): Owner | undefined =>
      modelKinds
        .map((kind) => kept.models.get(`${kind}/${model}`))
        .find((found) => found !== undefined)?.(),
  }
}

function watchedOf({ groups, keepsObjectsOf = [] }: ClusterSourceOptions): readonly Watched[] {
  const found: Omit<Watched, 'last'>[] = []
  // Tollgate's kinds take precedence over the original's, in any order of the list.
  for (const group of Object.keys(collections) as Group[]) {
    if (!groups.includes(group)) continue
    for (const each of collections[group] as readonly Collection[]) {
      const { apiGroup, kind, plural, namespace, name, readAs } = each
      const apiVersion = `${apiGroup}/v1alpha1`
      const inside = namespace === undefined ? '' : `namespaces/${namespace}/`
      const path = `/apis/${apiVersion}/${inside}${plural}`
      const from = group === 'tollgate.dev' ? 'us' : 'the original'
      const isKept = keepsObjectsOf.includes(group) && !kindsWithoutStatus.has(kind)
      const kept = isKept ? { group, readAs } : undefined
      const shown = `${plural}.${apiGroup}`
      const fieldSelector = name && `metadata.name=${name}`
      found.push({ apiVersion, kind, plural, from, kept, shown, path, fieldSelector })
    }
  }
  for (const other of othersCollections) {
    const { group, versions, kind, plural } = other
    const [version, older] = versions
    found.push({
      apiVersion: `${group}/${version}`,
      kind,
      plural,
      from: 'others',
      shown: `${plural}.${group}`,
      path: `/apis/${group}/${version}/${plural}`,
      olderPath: `/apis/${group}/${older}/${plural}`,
      labelSelector: 'labelSelector' in other ? other.labelSelector : undefined,
      keep: (object) => keepRead(object, documentSchemas[kind]),
    })
  }
  found.push({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    plural: 'configmaps',
    from: 'others',
    shown: 'configmaps',
    path: '/api/v1/configmaps',
    fieldSelector: `metadata.name=${tierMapping}`,
    keep: stripConfigMap,
  })
  return found.map((each) => ({ ...each, last: new Map() }))
}

/**
 * Whether nothing may be in force before this forbidden collection can be read: our kinds decide
 * who may call what, and the original's do if they are installed.
 */
async function isNeeded(client: KubeClient, watched: Watched): Promise<boolean> {
  if (watched.from !== 'the original') return watched.from === 'us'
  return await isServed(client, watched.path).catch(() => true)
}

/** The part of an object that is read, and what identifies its version. */
function keepRead(object: KubeObject, schema: Schema): KubeObject {
  const { uid, resourceVersion } = object.metadata
  const { metadata, ...rest } = pruneToSchema(object, schema) as KubeObject
  const versions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) }
  return { ...rest, metadata: { ...metadata, ...versions } }
}

/** A text that is too long, whatever it says. */
const tooLong = ' '.repeat(maxSliceText + 1)

/** What is read of a ConfigMap: whoever may write one in any namespace may write more than a MiB into it. */
export function stripConfigMap({ metadata, data }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp } =
    metadata as JsonObject
  const kept = { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp }
  const { tiers } = isObject(data) ? data : {}
  const isLong = typeof tiers === 'string' && tiers.length > maxSliceText
  return JSON.parse(
    JSON.stringify({ metadata: kept, data: data && { tiers: isLong ? tooLong : tiers } }),
  ) as KubeObject
}

/** Reads what has changed. */
function* gather(
  watched: readonly Watched[],
  kept: ObjectCache | undefined,
): Generator<unknown, Contents> {
  const definedAs = (file: string): string => `is defined as ${file} too`
  const gathering = createResourceGatherer(({ file }) => definedAs(file), 0)
  /** Objects that are not in force, by resource: one of the next group would lack their restrictions. */
  const unread = new Map<string, string>()
  const problems: FileProblem[] = []
  const refused: RefusedResource[] = []
  for (const each of watched) {
    const objects = each.reflector?.objects ?? new Map<string, KubeObject>()
    for (const key of each.last.keys()) if (!objects.has(key)) each.last.delete(key)
    for (const [name, object] of objects) {
      const isDuplicate =
        each.kind === 'ConfigMap' && name !== firstMapping && objects.has(firstMapping)
      const reading = isDuplicate ? duplicateMapping : yield* readOne(each, name, object)
      const { resource, problems: own, refused: not } = reading
      if (not !== undefined) refused.push(not)
      const file = `${each.shown} ${name}`
      const wrong = own.map(
        ({ path: _, ...problem }): FileProblem => ({ file, line: 0, ...problem }),
      )
      if (resource !== undefined) {
        const key = resourceKey(resource)
        const invalid = unread.get(key)
        const message = invalid && `${key} ${definedAs(invalid)}, ${duplicateOutcome(undefined)}`
        const again =
          message === undefined
            ? gathering.add({ key, resource, file, lineOf: noLine })
            : ({ file, line: 0, severity: 'error', message } as const)
        if (again !== undefined) wrong.push(again)
        else if (modelKinds.includes(resource.kind)) {
          kept?.models.set(key, () => toOwner(each, name))
        }
      }
      for (const problem of wrong) {
        problems.push(problem)
        if (problem.unread !== undefined) unread.set(problem.unread, file)
      }
      if (kept !== undefined) keepObject(kept, each, name, object, wrong)
      yield
    }
  }
  return gathering.end(problems, refused)
}

const noLine = (): number => 0

/** Kinds that can be models; the first that has a name counts. */
const modelKinds: readonly Resource['kind'][] = [
  'ModelRef',
  'ExternalModel.inference.opendatahub.io',
  'ExternalModel',
]

/** Whether an object reads the same as before: most changes are of a status, which is ignored here. */
function isUnchanged(watched: Watched, name: string): boolean {
  const before = watched.last.get(name)
  const object = watched.reflector?.objects.get(name)
  return (
    before !== undefined &&
    object !== undefined &&
    signatureOf(watched, object) === before.signature
  )
}

/** The resource of an object; the same object as before if only its status has changed. */
function* readOne(
  watched: Watched,
  name: string,
  object: KubeObject,
): Generator<unknown, ReadObject> {
  const { last, apiVersion, kind } = watched
  const before = last.get(name)
  if (before?.object === object) return before
  const signature = signatureOf(watched, object)
  const isSame = before?.signature === signature
  const reading: Reading = isSame ? before : yield* readFresh({ ...object, apiVersion, kind })
  const read = { ...reading, object, signature }
  last.set(name, read)
  return read
}

function* readFresh(object: KubeObject): Generator<unknown, Reading> {
  const { tiers } = isObject(object.data) ? object.data : {}
  const length = typeof tiers === 'string' ? tiers.length : 0
  if (length <= longTiers || length > maxSliceText) return parseObjectResource(object)
  const reading = runInThread<Reading>(worker, object).catch((error): Reading => {
    const message = `ConfigMap ${tierMapping}: cannot be read: ${errorMessage(error)}`
    return { problems: [{ path: [], severity: 'error', message }] }
  })
  return (yield reading) as Reading
}

/** Identifies everything of an object that is read; its version, if it is nested too deeply. */
function signatureOf({ keep }: Watched, { metadata, spec, data, status }: KubeObject): string {
  const { uid, annotations, deletionTimestamp, labels } = metadata as Readonly<
    Record<string, unknown>
  >
  const more = keep && [labels, status]
  try {
    const text = JSON.stringify([uid, annotations, deletionTimestamp, spec, data, more])
    return hash('sha256', text, 'base64')
  } catch {
    return `${uid}/${metadata.resourceVersion}`
  }
}
