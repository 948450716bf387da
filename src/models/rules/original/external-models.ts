/** Merges the original's ExternalModels, of both groups, into the ModelRefs that refer to them. */

import { memoizeLast } from '../../../formats/memoize.ts'
import {
  type ExternalModel,
  type ExternalProvider,
  type ModelRef,
  qualifiedName,
  type Resource,
} from '../../../kinds/resources.ts'
import { type ResourceProblem, resourceKey } from '../snapshot.ts'
import { chooseProvider } from './choose-provider.ts'

const merged = memoizeLast<ModelRef, ModelRef>()
const alone = memoizeLast<ExternalModel, ModelRef>()

/**
 * The resources without ExternalModels and ExternalProviders. A ModelRef that names an
 * ExternalModel in its namespace, and has no `backendUrl` of its own, gets its server. An
 * ExternalModel whose own name no ModelRef has becomes a model itself: not if that one is being deleted, or cannot be
 * read and is in `unread` (`ModelRef/<namespace>/<name>`), because its limits would not hold. Calls `report` with what
 * has no counterpart. The same inputs return the same objects.
 */
export function joinExternalModels(
  resources: readonly Resource[],
  report: (problem: ResourceProblem) => void = () => {},
  unread: { has(key: string): boolean } = new Set(),
): readonly Resource[] {
  const external = externalOf(resources, report)
  if (external.size === 0) return resources
  const others = resources.filter(
    ({ kind }) => !kind.startsWith('ExternalModel') && kind !== 'ExternalProvider',
  )
  const names = new Set<string>()
  for (const resource of others) {
    if (resource.kind === 'ModelRef') names.add(qualifiedName(resource))
  }
  const joined = others.map((resource) => {
    if (resource.kind !== 'ModelRef' || resource.backendUrl !== undefined) return resource
    const { kind, name } = resource.backend
    const named = external.get(`${resource.metadata.namespace}/${name}`)
    return kind === 'ExternalModel' && named !== undefined ? merge(resource, named) : resource
  })
  for (const [key, each] of external) {
    if (!names.has(key) && !unread.has(`ModelRef/${key}`)) joined.push(toModelRef(each))
  }
  return joined
}

/** By `<namespace>/<name>`. An object of the newer group takes precedence, as in the original. */
function externalOf(
  resources: readonly Resource[],
  report: (problem: ResourceProblem) => void,
): ReadonlyMap<string, ExternalModel> {
  const external = new Map<string, ExternalModel>()
  const providers = new Map<string, ExternalProvider>()
  for (const resource of resources) {
    if (resource.metadata.deleting) continue
    if (resource.kind === 'ExternalModel') external.set(qualifiedName(resource), resource)
    else if (resource.kind === 'ExternalProvider') providers.set(qualifiedName(resource), resource)
  }
  for (const resource of resources) {
    const { kind, metadata } = resource
    if (kind !== 'ExternalModel.inference.opendatahub.io' || metadata.deleting) continue
    const found = chooseProvider(resource, (name) => providers.get(`${metadata.namespace}/${name}`))
    external.set(qualifiedName(resource), found.external)
    for (const problem of found.problems) report({ ...problem, resource: resourceKey(resource) })
  }
  return external
}

function merge(ref: ModelRef, external: ExternalModel): ModelRef {
  return merged(ref, [external], () => ({ ...ref, ...serverOf(ref, external) }))
}

function toModelRef(external: ExternalModel): ModelRef {
  const { metadata } = external
  return alone(external, [], () => ({
    kind: 'ModelRef',
    metadata,
    backend: { kind: 'ExternalModel', name: metadata.name },
    modelFields: [],
    limits: [],
    ...serverOf({ metadata, modelIds: [], server: external.server }, external),
  }))
}

/** The fields that a ModelRef gets from its ExternalModel; its own credential and `upstreamModel` take precedence. */
function serverOf(
  { metadata, modelIds, server: own }: Pick<ModelRef, 'metadata' | 'modelIds' | 'server'>,
  { backendUrl, server, modelName, missing }: ExternalModel,
): Pick<ModelRef, 'backendUrl' | 'server' | 'modelIds' | 'routing'> {
  const names = new Set(modelIds)
  if (modelName !== undefined && modelName !== metadata.name) names.add(modelName)
  return {
    backendUrl,
    server: {
      ...own,
      credential: own.credential ?? server.credential,
      upstreamModel: own.upstreamModel ?? server.upstreamModel,
    },
    modelIds: [...names],
    ...(missing !== undefined && { routing: { route: undefined, missing, bypasses: undefined } }),
  }
}
