/** Converts the original's resources to ours, with the same meaning under our group and kinds. */

import { isObject, showPath } from '../formats/fields.ts'
import { specs } from '../kinds/resource-schemas.ts'
import type { ExternalModel, Resource } from '../kinds/resources.ts'
import { keyOf } from '../kinds/resources.ts'
import { parseResource } from './parse-resource.ts'
import { prune } from './prune.ts'

/** A document for `kubectl apply` or a folder of resources. */
export interface Document {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: unknown
}

export interface Exported {
  /** Ordered by kind, namespace and name, all unique. */
  readonly documents: readonly Document[]
  /** What could not be converted, one sentence each; `error`: a resource is missing. */
  readonly notes: readonly { readonly severity: 'error' | 'warning'; readonly message: string }[]
}

/**
 * Annotations of GitOps tools, which identify the object that they manage; a copy must not have
 * them.
 */
const toolAnnotations = /^kubectl\.kubernetes\.io\/|argoproj\.io\/|fluxcd\.io\/|^meta\.helm\.sh\//

type Kind = keyof typeof specs
type Note = Exported['notes'][number]

interface Read {
  /** `MaaSModelRef llm/granite` */
  readonly shown: string
  readonly resource: Resource
  readonly spec: unknown
}

/**
 * Converts objects of the original's group and ignores the rest. An ExternalModel becomes part of
 * the ModelRef that names it, as when it is served (external-models.ts); otherwise it becomes a
 * ModelRef.
 */
export function exportResources(objects: readonly unknown[]): Exported {
  const notes: Note[] = []
  const read = objects.flatMap((object) => readOriginal(object, notes))
  const external = new Map<string, ExternalModel>()
  for (const { resource } of read) {
    if (resource.kind === 'ExternalModel') external.set(keyOf(resource), resource)
  }
  const documents = new Map<string, Document>()
  for (const each of inOrder(read)) {
    const { resource, shown } = each
    const kind: Kind = resource.kind === 'ExternalModel' ? 'ModelRef' : (resource.kind as Kind)
    const id = `${kind}/${keyOf(resource)}`
    // The ModelRef of that name is served, and includes what it refers to.
    if (documents.has(id)) continue
    documents.set(id, toDocument(kind, resource, specOf(each, external), shown, notes))
  }
  const sorted = [...documents].sort(([a], [b]) => (a < b ? -1 : 1))
  return { documents: sorted.map(([, document]) => document), notes }
}

/** ExternalModels last. */
function inOrder(read: readonly Read[]): readonly Read[] {
  const isExternal = ({ resource }: Read): number => Number(resource.kind === 'ExternalModel')
  return [...read].sort((a, b) => isExternal(a) - isExternal(b))
}

const originals: ReadonlySet<unknown> = new Set([
  'maas.opendatahub.io/v1alpha1',
  'inference.opendatahub.io/v1alpha1',
])

function readOriginal(object: unknown, notes: Note[]): readonly Read[] {
  if (!isObject(object) || !originals.has(object.apiVersion)) return []
  const metadata = isObject(object.metadata) ? object.metadata : {}
  const shown = `${object.kind} ${metadata.namespace ?? ''}/${metadata.name}`
  const result = parseResource(object)
  if ('ignored' in result) return []
  if ('problems' in result) {
    for (const { path, message } of result.problems) {
      notes.push({ severity: 'error', message: `${shown}: ${showPath(path)} ${message}` })
    }
    return []
  }
  if (result.resource.metadata.deleting) {
    notes.push({ severity: 'warning', message: `${shown}: is being deleted, and left out` })
    return []
  }
  return [{ shown, resource: result.resource, spec: object.spec }]
}

function specOf({ resource, spec }: Read, external: ReadonlyMap<string, ExternalModel>): unknown {
  if (resource.kind === 'ExternalModel') {
    const { name } = resource.metadata
    return { modelRef: { kind: 'ExternalModel', name }, ...serverOf(resource) }
  }
  if (resource.kind !== 'ModelRef' || resource.backend.kind !== 'ExternalModel') return spec
  const named = external.get(`${resource.metadata.namespace}/${resource.backend.name}`)
  return named === undefined ? spec : { ...(spec as object), ...serverOf(named) }
}

/** The corresponding fields of a ModelRef. */
function serverOf({ backendUrl, server }: ExternalModel): object {
  const { credential, upstreamModel } = server
  return {
    backendUrl,
    ...(upstreamModel !== undefined && { upstreamModel }),
    ...(credential && {
      credential: {
        secretRef: credential.secretRef,
        ...(credential.header !== 'authorization' && { header: credential.header }),
      },
    }),
  }
}

function toDocument(
  kind: Kind,
  { metadata }: Resource,
  spec: unknown,
  shown: string,
  notes: Note[],
): Document {
  const annotations = Object.fromEntries(
    Object.entries(metadata.annotations).filter(([name]) => !toolAnnotations.test(name)),
  )
  const left: string[] = []
  const kept = prune(spec, specs[kind].spec, (path) => left.push(showPath(path)), ['spec'])
  if (left.length > 0) {
    const message = `${shown}: has no counterpart of ours for ${left.join(', ')}`
    notes.push({ severity: 'warning', message })
  }
  return {
    apiVersion: 'tollgate.dev/v1alpha1',
    kind,
    metadata: {
      name: metadata.name,
      namespace: metadata.namespace,
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    ...(kept !== undefined && { spec: kept }),
  }
}
