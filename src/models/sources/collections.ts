/** The collections of a cluster that are read. */

import { subscriptionNamespace, tenantsNamespace } from '../../kinds/resources.ts'
import { originalGroup, originalModelsGroup } from '../rules/original/original-kinds.ts'
import { routerLabels } from '../rules/reading/parse-routing.ts'

export type Group = keyof typeof collections

export interface Collection {
  readonly kind: string
  readonly plural: string
  /** The only namespace that is read, or undefined for all. */
  readonly namespace: string | undefined
  /** The only name that is read, or undefined for all. */
  readonly name?: string
  /** The kind that it is read as. */
  readonly readAs: string
  /** Its API group. */
  readonly apiGroup: string
}

const ours = 'tollgate.dev'

const all = (apiGroup: string, kind: string, plural: string, readAs = kind): Collection => ({
  apiGroup,
  kind,
  plural,
  readAs,
  namespace: undefined,
})
const one = (...names: Parameters<typeof all>): Collection => ({
  ...all(...names),
  namespace: subscriptionNamespace,
})

/**
 * The watched collections of each group; the original's include its models of another group. If both groups have an
 * object with one name, the first group takes precedence.
 */
export const collections = {
  'tollgate.dev': [
    all(ours, 'ModelRef', 'modelrefs'),
    one(ours, 'AccessPolicy', 'accesspolicies'),
    one(ours, 'Subscription', 'subscriptions'),
    one(ours, 'Tenant', 'tenants'),
  ],
  [originalGroup]: [
    all(originalGroup, 'MaaSModelRef', 'maasmodelrefs', 'ModelRef'),
    one(originalGroup, 'MaaSAuthPolicy', 'maasauthpolicies', 'AccessPolicy'),
    one(originalGroup, 'MaaSSubscription', 'maassubscriptions', 'Subscription'),
    // Comes first: it is newer than the original's Tenant, from which the original's controller fills it.
    one(originalGroup, 'MaasTenantConfig', 'maastenantconfigs', 'Tenant'),
    one(originalGroup, 'Tenant', 'tenants'),
    // The default tenant has the name of its namespace.
    {
      ...one(originalGroup, 'AITenant', 'aitenants'),
      ...{ namespace: tenantsNamespace, name: subscriptionNamespace },
    },
    all(originalGroup, 'ExternalModel', 'externalmodels'),
    all(originalModelsGroup, 'ExternalModel', 'externalmodels'),
    all(originalModelsGroup, 'ExternalProvider', 'externalproviders'),
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
