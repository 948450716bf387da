/** Converts the original's resources to ours, with the same meaning under our group and kinds. */

import { formatPath, isObject } from '../../formats/fields.ts'
import { specSchemas } from '../../kinds/resource-schemas.ts'
import { type ModelRef, qualifiedName, type Resource } from '../../kinds/resources.ts'
import { defaultTenant } from './compile.ts'
import { joinExternalModels } from './original/external-models.ts'
import { originalGroup, originalModelsGroup } from './original/original-kinds.ts'
import { parseResource } from './reading/parse-resource.ts'
import { pruneToSchema } from './reading/prune.ts'
import { unparsedResourceKey } from './refused-resources.ts'

/** A document for `kubectl apply` or a folder of resources. */
interface Document {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: unknown
}

interface Exported {
  /** Ordered by kind, namespace and name, all unique. */
  readonly documents: readonly Document[]
  /** One sentence for each field or resource that could not be converted; with `error` the resource is missing. */
  readonly notes: readonly { readonly severity: 'error' | 'warning'; readonly message: string }[]
}

/** Annotations of GitOps tools, which identify the object that they manage; a copy must not have them. */
const toolAnnotations = /^kubectl\.kubernetes\.io\/|argoproj\.io\/|fluxcd\.io\/|^meta\.helm\.sh\//

type Kind = keyof typeof specSchemas
type Note = Exported['notes'][number]

interface Read {
  /** `MaaSModelRef llm/granite` */
  readonly shown: string
  /** The kind in the document. */
  readonly written: unknown
  readonly resource: Resource
  readonly spec: unknown
}

/**
 * Converts objects of the original's groups and ignores the rest. An ExternalModel becomes part of
 * the ModelRef that names it, as when it is served (external-models.ts); otherwise it becomes a
 * ModelRef. The provider of an AITenant becomes part of the Tenant.
 */
export function exportResources(objects: readonly unknown[]): Exported {
  const notes: Note[] = []
  const read = objects.flatMap((object) => readOriginal(object, notes))
  const models = new Map<string, ModelRef>()
  const joined = joinExternalModels(
    read.map(({ resource }) => resource),
    ({ resource, path, message }) =>
      notes.push({ severity: 'warning', message: `${resource}: ${formatPath(path)} ${message}` }),
    new Set(objects.map(unparsedResourceKey)),
  )
  for (const each of joined) if (each.kind === 'ModelRef') models.set(qualifiedName(each), each)
  const oidc = read.map(oidcOf).find((found) => found !== undefined)
  const documents = new Map<string, Document>()
  for (const each of inOrder(read)) {
    const { resource, shown } = each
    const kind = exportedAs[resource.kind]
    if (kind === undefined || (kind === 'ModelRef' && !models.has(qualifiedName(resource))))
      continue
    const named = resource.kind === 'AITenant' ? defaultTenant : resource
    const id = `${kind}/${qualifiedName(named)}`
    // The ModelRef or Tenant with that name is served, and includes the objects that it refers to.
    const isCovered = documents.has(id)
    if (isCovered && resource.kind === 'Tenant') {
      const message = `${shown}: is left out, because another object with this name takes precedence`
      notes.push({ severity: 'warning', message })
    } else if (!isCovered || kind === 'Tenant') {
      const document = toDocument(kind, named, specOf(each, models, oidc), shown, notes)
      if (!isCovered) documents.set(id, document)
    }
  }
  const sorted = [...documents].sort(([a], [b]) => (a < b ? -1 : 1))
  return { documents: sorted.map(([, document]) => document), notes }
}

function oidcOf({ resource, spec }: Read): unknown {
  return resource.kind === 'AITenant' && isObject(spec) ? spec.oidc : undefined
}

/** The exported kind of each kind; the others are included in these. */
const exportedAs: Partial<Readonly<Record<Resource['kind'], Kind>>> = {
  ModelRef: 'ModelRef',
  AccessPolicy: 'AccessPolicy',
  Subscription: 'Subscription',
  Tenant: 'Tenant',
  ExternalModel: 'ModelRef',
  'ExternalModel.inference.opendatahub.io': 'ModelRef',
  AITenant: 'Tenant',
}

/**
 * Last those that are exported only if another kind has no resource of the name, and the older kinds before them, as
 * in a cluster (collections.ts).
 */
function inOrder(read: readonly Read[]): readonly Read[] {
  const rank = ({ resource: { kind }, written }: Read): number =>
    exportedAs[kind] !== kind ? 2 : Number(written === 'Tenant')
  return read.toSorted((a, b) => rank(a) - rank(b))
}

const originals: ReadonlySet<unknown> = new Set(
  [originalGroup, originalModelsGroup].map((group) => `${group}/v1alpha1`),
)

function readOriginal(object: unknown, notes: Note[]): readonly Read[] {
  if (!isObject(object) || !originals.has(object.apiVersion)) return []
  const metadata = isObject(object.metadata) ? object.metadata : {}
  const shown = `${object.kind} ${metadata.namespace ?? ''}/${metadata.name}`
  const result = parseResource(object)
  if ('ignored' in result) {
    if (result.ignored !== undefined) {
      notes.push({ severity: 'warning', message: `${shown}: is left out: ${result.ignored}` })
    }
    return []
  }
  // A Tenant that is not in force may still have limits in force.
  if (!('resource' in result) || result.problems.some(({ isMild }) => !isMild)) {
    for (const { path, message } of result.problems) {
      notes.push({ severity: 'error', message: `${shown}: ${formatPath(path)} ${message}` })
    }
    return []
  }
  const { resource } = result
  if (resource.kind === 'Subscription' && resource.outOfForce !== undefined) {
    // Without its unknown field, which may be a misspelt limit, an entry would be in force again.
    for (const { path, message } of resource.outOfForce.flatMap(({ problems }) => problems)) {
      notes.push({ severity: 'error', message: `${shown}: ${formatPath(path)} ${message}` })
    }
    return []
  }
  if (resource.metadata.deleting) {
    notes.push({ severity: 'warning', message: `${shown}: is being deleted, and left out` })
    return []
  }
  return [{ shown, written: object.kind, resource, spec: object.spec }]
}

function specOf(
  { resource, spec }: Read,
  models: ReadonlyMap<string, ModelRef>,
  oidc: unknown,
): unknown {
  if (exportedAs[resource.kind] === 'Tenant') {
    const isWritten = resource.kind === 'Tenant' && resource.externalOidc !== undefined
    const { oidc: _, ...rest } = isObject(spec) ? spec : {}
    return isWritten || oidc === undefined ? rest : { ...rest, externalOIDC: oidc }
  }
  const ref = models.get(qualifiedName(resource))
  if (ref === undefined || ref === resource || ref.backend.kind !== 'ExternalModel') return spec
  const server = serverOf(ref)
  if (resource.kind !== 'ModelRef') return server
  const { modelIds } = ref
  return { ...server, ...(spec as object), ...(modelIds.length > 0 && { modelIds }) }
}

/** The fields of a ModelRef that come from an ExternalModel. */
function serverOf({ backend, backendUrl, modelIds, server }: ModelRef): object {
  const { credential, upstreamModel } = server
  return {
    modelRef: backend,
    ...(backendUrl !== undefined && { backendUrl }),
    ...(modelIds.length > 0 && { modelIds }),
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
  const kept = pruneToSchema(spec, specSchemas[kind], (path) => left.push(formatPath(path)), [
    'spec',
  ])
  if (left.length > 0) {
    const message = `${shown}: has fields without a Tollgate equivalent: ${left.join(', ')}`
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
