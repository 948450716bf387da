import { test } from 'tap'
import type { Resource } from '../../../src/kinds/resources.ts'
import { exportResources } from '../../../src/models/rules/export-resources.ts'
import { joinExternalModels } from '../../../src/models/rules/original/external-models.ts'
import { parseResource } from '../../../src/models/rules/reading/parse-resource.ts'

const apiVersion = 'maas.opendatahub.io/v1alpha1'
const model = (name: string, modelRef: object, more: object = {}) => ({
  apiVersion,
  kind: 'MaaSModelRef',
  metadata: { name, namespace: 'llm', ...more },
  spec: { modelRef },
})
const external = (name: string, more: object = {}) => ({
  apiVersion,
  kind: 'ExternalModel',
  metadata: { name, namespace: 'llm' },
  spec: {
    provider: 'anthropic',
    endpoint: 'api.example.com',
    targetModel: 'large-4',
    credentialRef: { name: 'provider' },
    ...more,
  },
})
const refs = { modelRefs: [{ namespace: 'llm', name: 'granite' }] }
const policy = {
  apiVersion,
  kind: 'MaaSAuthPolicy',
  metadata: { name: 'open', namespace: 'models-as-a-service' },
  spec: { ...refs, subjects: { groups: [{ name: 'team' }] } },
}
const subscription = {
  apiVersion,
  kind: 'MaaSSubscription',
  metadata: {
    name: 'one',
    namespace: 'models-as-a-service',
    annotations: {
      'openshift.io/display-name': 'One',
      'kubectl.kubernetes.io/last-applied-configuration': '{}',
      'argocd.argoproj.io/tracking-id': 'x',
    },
    finalizers: ['maas.opendatahub.io/subscription-cleanup'],
    labels: { 'argocd.argoproj.io/instance': 'x' },
    uid: '1',
  },
  spec: {
    owner: { groups: [{ name: 'team' }], users: ['alice'] },
    modelRefs: [{ ...refs.modelRefs[0], tokenRateLimits: [{ limit: 5, window: '1m' }] }],
    priority: 3,
  },
}
const tenant = {
  apiVersion,
  kind: 'Tenant',
  metadata: { name: 'default-tenant', namespace: 'models-as-a-service' },
  spec: { gatewayRef: { name: 'gw' }, apiKeys: { maxExpirationDays: 30 } },
}
const granite = model('granite', { kind: 'LLMInferenceService', name: 'granite' })
const all = [
  tenant,
  subscription,
  external('shared'),
  policy,
  model('claude', { kind: 'ExternalModel', name: 'shared' }),
  granite,
  external('alone', { provider: 'openai', targetModel: undefined }),
]

/** The resources as the service would read them. */
function read(documents: readonly object[]): readonly Resource[] {
  const resources = documents.map((document) => {
    const result = parseResource(document)
    if (!('resource' in result)) throw new Error(JSON.stringify(result))
    return result.resource
  })
  return [...joinExternalModels(resources)]
    .map((resource) => {
      // The service ignores annotations of tools; a credential file exists only in our own kinds.
      const { annotations, ...metadata } = resource.metadata
      const shown = { displayName: annotations['openshift.io/display-name'] }
      if (resource.kind !== 'ModelRef') return { ...resource, metadata: { ...metadata, ...shown } }
      const { credential } = resource.server
      const server = {
        ...resource.server,
        credential: credential && { ...credential, file: undefined },
      }
      return { ...resource, server, metadata: { ...metadata, ...shown } }
    })
    .map((resource) => resource as unknown as Resource)
    .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
}

const keyOf = ({ kind, metadata }: Resource) => `${kind}/${metadata.namespace}/${metadata.name}`

test('the configuration of the newest version becomes the Tenant', async (t) => {
  const config = {
    ...tenant,
    kind: 'MaasTenantConfig',
    spec: { apiKeys: { maxExpirationDays: 30 }, payloadProcessing: { replicas: 2 } },
  }
  const oidc = { issuerUrl: 'https://idp.example', clientId: 'models' }
  const aiTenant = {
    ...{ apiVersion, kind: 'AITenant' },
    metadata: { name: 'models-as-a-service', namespace: 'ai-tenants' },
    spec: { oidc },
  }
  const { documents, notes } = exportResources([aiTenant, config])
  const expected = { apiKeys: { maxExpirationDays: 30 }, externalOIDC: oidc }
  t.strictSame(documents[0]?.spec, expected)
  t.equal(documents.length, 1)
  t.match(notes, [{ severity: 'warning', message: /payloadProcessing/ }])
  t.match(exportResources([aiTenant]).documents, [
    { kind: 'Tenant', metadata: { name: 'default-tenant' }, spec: { externalOIDC: oidc } },
  ])
  const own = { ...tenant, spec: { externalOIDC: { ...oidc, clientId: 'own' } } }
  t.match(exportResources([own, aiTenant]).documents, [
    { spec: { externalOIDC: { clientId: 'own' } } },
  ])
  t.strictSame(read([own, aiTenant]).filter(({ kind }) => kind === 'Tenant').length, 1)
})

test('the newest configuration takes precedence in any order, and what is left out is reported', async (t) => {
  const config = {
    ...tenant,
    kind: 'MaasTenantConfig',
    spec: { apiKeys: { maxExpirationDays: 20 }, payloadProcessing: { replicas: 2 } },
  }
  const aiTenant = (name: string) => ({
    ...{ apiVersion, kind: 'AITenant' },
    metadata: { name, namespace: 'ai-tenants' },
    spec: { gateway: { name: 'gw' } },
  })
  const own = aiTenant('models-as-a-service')
  for (const objects of [
    [tenant, own, config, aiTenant('blue')],
    [aiTenant('blue'), config, own, tenant],
  ]) {
    const { documents, notes } = exportResources(objects)
    t.match(documents, [{ kind: 'Tenant', spec: { apiKeys: { maxExpirationDays: 20 } } }])
    t.equal(documents.length, 1)
    t.strictSame(notes.map(({ severity, message }) => `${severity} ${message}`).sort(), [
      'warning AITenant ai-tenants/blue: is left out: maas.opendatahub.io/v1alpha1 AITenant is of another tenant than models-as-a-service',
      'warning AITenant ai-tenants/models-as-a-service: has fields without a Tollgate equivalent: spec.gateway',
      'warning MaasTenantConfig models-as-a-service/default-tenant: has fields without a Tollgate equivalent: spec.payloadProcessing',
      'warning Tenant models-as-a-service/default-tenant: is left out, because another object with this name takes precedence',
    ])
  }
})

test('limits by name are exported whole or not at all', async (t) => {
  const limit = { name: 'month', of: 'cost', limit: '9000000000', window: 'month' }
  const budget = { limits: [limit], calendar: { timeZone: 'Asia/Tokyo', weekStartsOn: 'sunday' } }
  const [first] = subscription.spec.modelRefs
  const billed = { ...first, billingRate: { perToken: '1e-6' }, weights: { output: 4 } }
  const limited = [
    { ...subscription, spec: { ...subscription.spec, ...budget, modelRefs: [billed] } },
    { ...tenant, spec: { ...budget, apiKeys: { maxExpirationDays: 30 } } },
    { ...granite, spec: { ...granite.spec, limits: [{ ...limit, per: 'model' }] } },
  ]
  const { documents, notes } = exportResources(limited)
  t.strictSame(notes, [])
  t.strictSame(read(documents), read(limited))
  const broken = { ...tenant, spec: { ...budget, apiKeys: { maxExpirationDays: 0 } } }
  t.match(exportResources([broken]), {
    documents: [],
    notes: [{ severity: 'error', message: /maxExpirationDays must be/ }],
  })
})

test('exported documents mean the same as the originals', async (t) => {
  const { documents, notes } = exportResources(all)
  // An ExternalModel that a ModelRef refers to is also served as a model under its own name.
  t.strictSame(read(documents), read(all))
  t.ok(documents.every((each) => each.apiVersion === 'tollgate.dev/v1alpha1'))
  t.strictSame(notes, [
    {
      severity: 'warning',
      message:
        'Tenant models-as-a-service/default-tenant: has fields without a Tollgate equivalent: spec.gatewayRef',
    },
  ])
})

test('only the metadata that the service reads is exported', async (t) => {
  const [document] = exportResources([subscription]).documents
  t.strictSame(document?.metadata, {
    name: 'one',
    namespace: 'models-as-a-service',
    annotations: { 'openshift.io/display-name': 'One' },
  })
})

test('the server of an ExternalModel moves into the ModelRef', async (t) => {
  const { documents } = exportResources(all)
  t.strictSame(documents.find(({ metadata }) => metadata.name === 'claude')?.spec, {
    modelRef: { kind: 'ExternalModel', name: 'shared' },
    backendUrl: 'https://api.example.com',
    upstreamModel: 'large-4',
    credential: { secretRef: { name: 'provider', key: 'api-key' }, header: 'x-api-key' },
  })
  t.strictSame(documents.find(({ metadata }) => metadata.name === 'alone')?.spec, {
    modelRef: { kind: 'ExternalModel', name: 'alone' },
    backendUrl: 'https://api.example.com',
    credential: { secretRef: { name: 'provider', key: 'api-key' } },
  })
})

test('the server of a newer ExternalModel moves into the ModelRef with its name', async (t) => {
  const newer = { apiVersion: 'inference.opendatahub.io/v1alpha1' }
  const provider = {
    ...{ ...newer, kind: 'ExternalProvider' },
    metadata: { name: 'p', namespace: 'llm' },
    spec: {
      provider: 'openai',
      endpoint: 'p.example.com',
      auth: { secretRef: { name: 'provider' } },
    },
  }
  const reference = { ref: { name: 'p' }, targetModel: 'large', apiFormat: 'openai-chat' }
  const hosted = {
    ...{ ...newer, kind: 'ExternalModel' },
    metadata: { name: 'hosted', namespace: 'llm' },
    spec: { modelName: 'gpt', externalProviderRefs: [reference, reference] },
  }
  const chat = model('chat', { kind: 'ExternalModel', name: 'hosted' })
  const { documents, notes } = exportResources([hosted, provider, chat])
  t.strictSame(
    documents.map(({ metadata }) => metadata.name),
    ['chat', 'hosted'],
  )
  t.strictSame(documents[0]?.spec, {
    modelRef: { kind: 'ExternalModel', name: 'hosted' },
    backendUrl: 'https://p.example.com',
    modelIds: ['gpt'],
    upstreamModel: 'large',
    credential: { secretRef: { name: 'provider', key: 'api-key' } },
  })
  t.match(notes, [
    { severity: 'warning', message: /gets no share of the requests: all traffic is routed to p/ },
  ])
  t.match(exportResources([hosted, chat]).notes, [
    { message: /cannot be served: .*does not exist/ },
  ])
})

test('a ModelRef takes precedence over an ExternalModel of the same name', async (t) => {
  const ref = model('twice', { kind: 'LLMInferenceService', name: 'other' })
  const { documents } = exportResources([external('twice'), ref])
  t.strictSame(
    documents.map(({ spec }) => spec),
    [{ modelRef: { kind: 'LLMInferenceService', name: 'other' } }],
  )
})

test('reports invalid objects, omits those being deleted and ignores other kinds', async (t) => {
  const broken = { ...subscription, spec: { ...subscription.spec, modelRefs: [] } }
  const leaving = model(
    'leaving',
    { kind: 'LLMInferenceService', name: 'x' },
    { deletionTimestamp: '2026-01-01T00:00:00Z' },
  )
  const others = [
    null,
    7,
    [],
    {},
    { ...granite, apiVersion: 'tollgate.dev/v1alpha1' },
    { apiVersion },
  ]
  const { documents, notes } = exportResources([broken, leaving, ...others])
  t.strictSame(documents, [])
  t.strictSame(notes, [
    {
      severity: 'error',
      message: 'MaaSSubscription models-as-a-service/one: spec.modelRefs needs at least 1 model',
    },
    { severity: 'warning', message: 'MaaSModelRef llm/leaving: is being deleted, and left out' },
    { severity: 'error', message: 'undefined /undefined: kind is required' },
  ])
})
