/** Merges the original's ExternalModels into the ModelRefs that refer to them. */

import type { ExternalModel, ModelRef, Resource } from '../kinds/resources.ts'
import { keyOf } from '../kinds/resources.ts'

const merged = new WeakMap<ExternalModel, WeakMap<ModelRef, ModelRef>>()
const alone = new WeakMap<ExternalModel, ModelRef>()

/**
 * The resources without ExternalModels. A ModelRef that names one in its namespace, and has no
 * `backendUrl` of its own, gets its server. An ExternalModel whose own name no ModelRef has becomes
 * a model itself. The same inputs return the same objects.
 */
export function joinExternalModels(resources: readonly Resource[]): readonly Resource[] {
  const external = new Map<string, ExternalModel>()
  const names = new Set<string>()
  for (const resource of resources) {
    if (resource.metadata.deleting) continue
    if (resource.kind === 'ExternalModel') external.set(keyOf(resource), resource)
    else if (resource.kind === 'ModelRef') names.add(keyOf(resource))
  }
  if (external.size === 0) return resources
  return resources.flatMap((resource) => {
    if (resource.kind === 'ExternalModel') {
      return resource.metadata.deleting || names.has(keyOf(resource)) ? [] : toModelRef(resource)
    }
    if (resource.kind !== 'ModelRef' || resource.backendUrl !== undefined) return resource
    const { kind, name } = resource.backend
    const named = external.get(`${resource.metadata.namespace}/${name}`)
    return kind === 'ExternalModel' && named !== undefined ? merge(resource, named) : resource
  })
}

function merge(ref: ModelRef, external: ExternalModel): ModelRef {
  const byRef = merged.get(external) ?? new WeakMap<ModelRef, ModelRef>()
  merged.set(external, byRef)
  const { backendUrl, server } = external
  const made = byRef.get(ref) ?? { ...ref, backendUrl, server }
  byRef.set(ref, made)
  return made
}

function toModelRef(external: ExternalModel): ModelRef {
  const { metadata, backendUrl, server } = external
  const made = alone.get(external) ?? {
    kind: 'ModelRef',
    metadata,
    backend: { kind: 'ExternalModel', name: metadata.name },
    backendUrl,
    modelIds: [],
    server,
  }
  alone.set(external, made)
  return made
}
