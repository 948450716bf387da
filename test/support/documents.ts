import type { Resource } from '../../src/kinds/resources.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import type { Snapshot } from '../../src/models/rules/snapshot.ts'
import { compile } from './compile.ts'

/** A resource as parsed from YAML. */
export interface WrittenDocument {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: Record<string, unknown>
  readonly spec: Record<string, unknown>
}

const apiVersion = 'tollgate.dev/v1alpha1'

/** A ModelRef `llm/<name>` (or the namespace given) with a backend. */
export function modelRef(name: string, spec: object = {}, namespace = 'llm'): WrittenDocument {
  return {
    apiVersion,
    kind: 'ModelRef',
    metadata: { name, namespace },
    spec: {
      modelRef: { kind: 'LLMInferenceService', name },
      backendUrl: `http://${name}.example:8000`,
      ...spec,
    },
  }
}

/** An AccessPolicy for these models (`namespace/name`) and subjects. */
export function accessPolicy(
  name: string,
  models: readonly string[],
  subjects: { users?: readonly string[]; groups?: readonly string[] },
): WrittenDocument {
  return {
    apiVersion,
    kind: 'AccessPolicy',
    metadata: { name },
    spec: { modelRefs: models.map(reference), subjects: owners(subjects) },
  }
}

/** A Subscription for these owners, with limits (`[100, '1m']`) by model. */
export function subscription(
  name: string,
  owner: { users?: readonly string[]; groups?: readonly string[] },
  limits: Readonly<Record<string, readonly (readonly [number, string])[]>>,
  /** `ofModels`: further fields of each model; `named`: limits by name; `spec`: further fields of the Subscription. */
  more: {
    priority?: number
    deleting?: boolean
    admission?: object
    ofModels?: object
    named?: readonly object[] | undefined
    spec?: object
  } = {},
): WrittenDocument {
  const { priority, deleting = false, admission, ofModels, named, spec } = more
  return {
    apiVersion,
    kind: 'Subscription',
    metadata: { name, ...(deleting ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}) },
    spec: {
      owner: owners(owner),
      modelRefs: Object.entries(limits).map(([model, rates]) => ({
        ...reference(model),
        tokenRateLimits: rates.map(([limit, window]) => ({ limit, window })),
        ...ofModels,
      })),
      ...(priority === undefined ? {} : { priority }),
      ...(admission && { admission }),
      ...(named && { limits: named }),
      ...spec,
    },
  }
}

const originalKinds: Readonly<Record<string, string>> = {
  ModelRef: 'MaaSModelRef',
  AccessPolicy: 'MaaSAuthPolicy',
  Subscription: 'MaaSSubscription',
}

/** Converts a document to an object of the original service, with its finalizers. */
export function original(
  { kind, metadata, spec }: Pick<WrittenDocument, 'kind' | 'metadata' | 'spec'>,
  finalizers: readonly string[] = [],
): WrittenDocument {
  return {
    apiVersion: 'maas.opendatahub.io/v1alpha1',
    kind: originalKinds[kind] ?? kind,
    metadata: { ...metadata, ...(finalizers.length > 0 && { finalizers }) },
    spec,
  }
}

/** The resource of a valid document; throws its problems if it is invalid. */
export function resourceOf(document: unknown): Resource {
  const result = parseResource(document)
  if ('resource' in result) return result.resource
  throw new Error(`no valid resource: ${JSON.stringify(result)}`)
}

/** The Snapshot of valid documents. */
export function snapshotOf(...documents: readonly unknown[]): Snapshot {
  return compile(documents.map(resourceOf))
}

function reference(model: string): { namespace: string; name: string } {
  const [namespace = '', name = ''] = model.split('/')
  return { namespace, name }
}

function owners({
  users = [],
  groups = [],
}: {
  users?: readonly string[]
  groups?: readonly string[]
}) {
  return { users, groups: groups.map((name) => ({ name })) }
}
