/** The collections of a cluster that are read. */

import { routerLabels } from '../core/resources/parse-routing.ts'

export type Group = keyof typeof collections

/** The original's. */
export const originalGroup = 'maas.opendatahub.io' satisfies Group

interface Collection {
  readonly kind: string
  readonly plural: string
  /** Whether only one namespace is used, so that the others are not read. */
  readonly isOneNamespace: boolean
  /** The kind that it is read as. */
  readonly readAs: string
}

const all = (kind: string, plural: string, readAs = kind): Collection => ({
  ...{ kind, plural, readAs },
  isOneNamespace: false,
})
const one = (kind: string, plural: string, readAs = kind): Collection => ({
  ...{ kind, plural, readAs },
  isOneNamespace: true,
})

/**
 * The watched collections of each group. If both groups have an object of one name, the first group
 * takes precedence.
 */
export const collections = {
  'tollgate.dev': [
    all('ModelRef', 'modelrefs'),
    one('AccessPolicy', 'accesspolicies'),
    one('Subscription', 'subscriptions'),
    one('Tenant', 'tenants'),
  ],
  'maas.opendatahub.io': [
    all('MaaSModelRef', 'maasmodelrefs', 'ModelRef'),
    one('MaaSAuthPolicy', 'maasauthpolicies', 'AccessPolicy'),
    one('MaaSSubscription', 'maassubscriptions', 'Subscription'),
    // Newer than its Tenant, from which the original's controller fills it.
    one('MaasTenantConfig', 'maastenantconfigs', 'Tenant'),
    one('Tenant', 'tenants'),
    all('ExternalModel', 'externalmodels'),
  ],
} as const satisfies Readonly<Record<string, readonly Collection[]>>

/** The watched foreign collections, in the first of two versions that exists. */
export const othersCollections = [
  {
    group: 'gateway.networking.k8s.io',
    versions: ['v1', 'v1beta1'],
    kind: 'HTTPRoute',
    plural: 'httproutes',
    labelSelector: Object.entries(routerLabels)
      .map((each) => each.join('='))
      .join(),
  },
  {
    group: 'gateway.networking.k8s.io',
    versions: ['v1', 'v1beta1'],
    kind: 'Gateway',
    plural: 'gateways',
  },
  {
    group: 'serving.kserve.io',
    versions: ['v1alpha1', 'v1alpha2'],
    kind: 'LLMInferenceService',
    plural: 'llminferenceservices',
  },
] as const

/** Kinds whose objects have no status of ours. */
export const withoutStatus: ReadonlySet<string> = new Set(['ExternalModel', 'MaasTenantConfig'])

export const tierMapping = 'tier-to-group-mapping'
