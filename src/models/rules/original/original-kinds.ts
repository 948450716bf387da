/** The original's groups and kinds, and which of ours they are read as. */

import type { Resource } from '../../../kinds/resources.ts'

type Kinds = Readonly<Record<string, Resource['kind']>>

export const originalGroup = 'maas.opendatahub.io' as const
/** The original's newer group, of models alone. */
export const originalModelsGroup = 'inference.opendatahub.io'

export const originalKinds = {
  MaaSModelRef: 'ModelRef',
  MaaSAuthPolicy: 'AccessPolicy',
  MaaSSubscription: 'Subscription',
  ExternalModel: 'ExternalModel',
  MaasTenantConfig: 'Tenant',
  Tenant: 'Tenant',
  AITenant: 'AITenant',
} as const satisfies Kinds

export const originalModelKinds = {
  ExternalModel: 'ExternalModel.inference.opendatahub.io',
  ExternalProvider: 'ExternalProvider',
} as const satisfies Kinds

/** Kinds whose objects have no status of ours. */
export const kindsWithoutStatus: ReadonlySet<string> = new Set([
  ...['AITenant', 'ExternalModel', 'ExternalProvider', 'MaasTenantConfig'],
])

/** The Lease of the original's controller (`--leader-elect`). */
export const originalLeaseName = 'maas-controller.models-as-a-service.opendatahub.io'

/** How one of our kinds may be written. */
export function acceptedKindNames(kind: Resource['kind']): readonly string[] {
  const originals = Object.entries(originalKinds).filter(([, readAs]) => readAs === kind)
  return [...new Set([kind, ...originals.map(([name]) => name)])]
}

/** Whether a document's `kind` is a name of ours. */
export function isKindName(kind: Resource['kind'], written: unknown): boolean {
  return acceptedKindNames(kind).some((name) => name === written)
}
