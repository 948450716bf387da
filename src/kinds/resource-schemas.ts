/**
 * The schema of each kind: the single source of its fields, their types, bounds and patterns. resources.ts has the
 * types that are derived from it; `npm run crds` writes k8s/crds and docs/resources.md.
 */

import { type FieldProblem, readFields } from '../formats/fields.ts'
import {
  boolean,
  dnsLabel,
  dnsName,
  integer,
  labels,
  list,
  object,
  oneOf,
  optional,
  partial,
  type Schema,
  text,
  withDefault,
} from '../formats/schema.ts'
import { openableFields } from './body-fields.ts'
import {
  calendarSchema,
  limitedModelsSchema,
  limitSchema,
  namedLimitsSchema,
  pricesSchema,
  weightsSchema,
} from './limit-schemas.ts'
import { subscriptionNamespace, tenantsNamespace } from './metadata.ts'
import {
  credentialReferenceSchema,
  credentialSchema,
  outputSchema,
  serverSchema,
  upstreamModelSchema,
} from './model-server-schema.ts'
import { routingDocumentSchemas } from './routing-schemas.ts'

const inLowerCase = 'a DNS name in lower case'

/** Namespaces that would shadow a route of the gateway. */
const routeNames = ['v1', 'internal', 'maas-api', 'console', 'health', 'docs', 'openapi.json']

/** Fields that Kubernetes has in the metadata of any object besides those that we read. */
const othersOfMetadata = [
  ...['generateName', 'labels', 'finalizers', 'ownerReferences', 'managedFields', 'uid'],
  ...['resourceVersion', 'generation', 'deletionGracePeriodSeconds', 'selfLink', 'clusterName'],
]

/** Maximum size of all annotations together, as for an API server. */
const maxAnnotation = 262_144

/** The API server's own rules for objects, which we apply to files, and a kind's rules. */
function metadata(
  namespace: string,
  ofName: Partial<Schema> = {},
  ofNamespace: Partial<Schema> = {},
) {
  return object(
    {
      name: text({ minLength: 1, maxLength: 253, pattern: dnsName, form: inLowerCase, ...ofName }),
      namespace: withDefault(
        text({
          minLength: 1,
          maxLength: 63,
          pattern: dnsLabel,
          form: 'a DNS label in lower case',
          ...ofNamespace,
        }),
        namespace,
      ),
      annotations: labels({}, maxAnnotation),
      creationTimestamp: optional(text()),
      deletionTimestamp: optional(text()),
    },
    { others: othersOfMetadata },
  )
}

const ofModel: Partial<Schema> = {
  refuses: routeNames.map((name) => ({
    pattern: `^${name.replace('.', '\\.')}$`,
    message: `"${name}" would hide a route of the gateway`,
  })),
}

const ofPolicy: Partial<Schema> = {
  pattern: `^${subscriptionNamespace}$`,
  form: `${subscriptionNamespace}; others are not watched`,
}

const ofReference = { minLength: 1, maxLength: 63, pattern: dnsName, form: inLowerCase }
const referenceFields = {
  namespace: text({ description: 'the namespace of the ModelRef', ...ofReference }),
  name: text({ description: 'its name', ...ofReference }),
}
const referenceForm = 'an object like { namespace: llm, name: my-model }'
const reference = object(referenceFields, { form: referenceForm })

/** Quotes and backslashes are refused as in the original. Control characters are refused too. */
const plainName: Partial<Schema> = {
  minLength: 1,
  maxLength: 1_024,
  pattern: '^[^"\\\\\\x00-\\x1f\\x7f]+$',
  form: 'free of ", \\ and controls',
}

function subjects(more: Partial<Schema>) {
  return withDefault(
    object(
      {
        users: list(text(plainName), { description: 'names of users', item: 'user' }),
        groups: list(object({ name: text({ ...plainName, description: 'its name' }) }), {
          description: 'groups, with all their members',
          item: 'group',
        }),
      },
      more,
    ),
    {},
  )
}

const attribution = withDefault(
  object(
    {
      organizationId: withDefault(
        text({ description: 'the responsible organization', maxLength: 4_096 }),
        '',
      ),
      costCenter: withDefault(
        text({ description: 'the cost center to charge', maxLength: 4_096 }),
        '',
      ),
      labels: labels({ description: 'further labels' }),
    },
    { description: 'organization and cost center of the use' },
  ),
  {},
)

/** Maximum number of models that one resource may name; more would hardly fit into etcd. */
const maxModels = 5_000

const urlForm = 'a URL like http://host:port/path'

const url: Partial<Schema> = {
  minLength: 1,
  maxLength: 2_048,
  pattern: urlPattern(),
  form: urlForm,
  // A text that matches may still be invalid: an IPv6 address, a Punycode name.
  rules: [{ message: `must be ${urlForm}`, holds: URL.canParse }],
  refuses: [
    {
      pattern: '^https?://[^/?#]*@|[?#]',
      message: 'must have no user, password, query or fragment',
    },
    // Envoy refuses a TLS server name of more than 255, and with it all concurrent changes.
    { pattern: '^https?://[^/:]{254}', message: 'must have a host of at most 253 characters' },
  ],
}

/** Whether a text from another source than our documents is a valid URL of this form. */
export function isUrl(raw: string): boolean {
  const problems: FieldProblem[] = []
  readFields(raw, text(url), problems)
  return problems.length === 0
}

function urlPattern(): string {
  const label = '[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?'
  // A last label of only digits would be parsed as part of an IPv4 address.
  const last = '([A-Za-z_]|[0-9]+[-A-Za-z_])([-A-Za-z0-9_]*[A-Za-z0-9_])?'
  const octet = '(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
  const host = `((${label}\\.)*${last}\\.?|${octet}(\\.${octet}){3}|\\[[0-9A-Fa-f:.]+\\])`
  // Nothing listens at port 0.
  const port =
    '0*[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]'
  return `^https?://([!-"$-.0->A-~]*@)?${host}(:(${port})?)?([/?#][!-~]*)?$`
}

/** `others`, here and below: fields of the original's definitions. */
const modelRefSpec = object(
  {
    modelRef: object(
      {
        kind: text({
          description: 'kind of the object',
          enum: ['LLMInferenceService', 'ExternalModel'],
        }),
        name: text({ description: 'its name in this namespace', minLength: 1, maxLength: 253 }),
      },
      { description: 'the object that serves the model', others: ['namespace'] },
    ),
    backendUrl: optional(
      text({
        ...url,
        description: 'where the gateway sends requests for the model',
        otherwise:
          'found by its HTTPRoute or LLMInferenceService ([kubernetes.md](kubernetes.md#where-requests-go)); without one, nothing serves the model',
      }),
    ),
    endpointOverride: optional(
      text({
        ...url,
        description: 'the address shown to clients',
        otherwise: '`GATEWAY_URL`/namespace/name',
      }),
    ),
    modelIds: list(text({ ...plainName, maxLength: 256 }), {
      description: 'further names that requests may use for the model, 16 KiB of them in all',
      item: 'name',
      maxItems: 256,
      maxBytes: 16_384,
      cut: true,
    }),
    credential: optional(credentialSchema),
    ...serverSchema,
    output: optional(outputSchema),
    modelFields: list(oneOf(openableFields, {}), {
      description:
        'fields of requests to allow, which are refused by default: fields that choose another model than `model`, if `modelIds` or `upstreamModel` is set, and fields that name other servers of the model ([model-servers.md](model-servers.md#another-model-beside-model))',
      maxItems: openableFields.length,
    }),
    state: optional(
      oneOf(['closed', 'shared'], {
        description:
          '`shared` gives all users of the model access to the objects that are stored in the account at the server: responses, files, batches ([model-servers.md](model-servers.md#what-a-server-stores))',
        otherwise: '`closed`',
      }),
    ),
    limits: namedLimitsSchema(
      ['user', 'subscription', 'model'],
      'limits on the use of the model, under any Subscription',
      {},
    ),
  },
  { others: ['tenantRef'] },
)

const accessPolicySpec = object(
  {
    modelRefs: list(reference, {
      description: 'the models to which this policy gives access',
      item: 'model',
      minItems: 1,
      maxItems: maxModels,
      cut: true,
    }),
    subjects: subjects({
      description: 'who may use them: any of these users or groups',
      rules: [
        {
          cel: '(has(self.users) && size(self.users) > 0) || (has(self.groups) && size(self.groups) > 0)',
          message: 'needs at least one group or user',
          holds: ({ users, groups }: Readonly<Record<string, unknown>>) =>
            [users, groups].some((each) => Array.isArray(each) && each.length > 0),
        },
      ],
    }),
    meteringMetadata: attribution,
  },
  { others: ['publicPaths'] },
)

const admission = object(
  partial({
    mode: oneOf(['count', 'reserve'], {
      description:
        '`count` admits while the counted tokens are below the limit; `reserve` also counts the estimates of requests in progress ([reservation.md](reservation.md))',
      otherwise: '`ADMISSION_MODE`: `count`',
    }),
    overshootPercent: integer(0, 1_000, {
      description:
        'with `reserve`: the percentage by which concurrent requests may together exceed a limit',
      otherwise: '25',
    }),
    charge: oneOf(['end', 'admission'], {
      description:
        'the window in which a response is counted: that of its `end`, or with `reserve` that of its admission',
      otherwise: '`admission` with `reserve`, else `end`',
    }),
  }),
  {
    description: 'how requests are admitted',
    closed: true,
    rules: [
      {
        cel: "!has(self.charge) || self.charge == 'end' || (has(self.mode) && self.mode == 'reserve')",
        message: 'charge: admission needs mode: reserve',
        holds: ({ mode, charge }: Readonly<Record<string, unknown>>) =>
          charge !== 'admission' || mode === 'reserve',
      },
    ],
  },
)

const notify = object(
  {
    at: list(integer(1, 100, {}), {
      description: 'percents of a limit',
      item: 'percent',
      minItems: 1,
      maxItems: 10,
    }),
  },
  {
    description:
      'percentages of a limit at which a notice is sent to `NOTIFY_URL` ([notices.md](notices.md))',
  },
)

const billedModel = object(
  {
    ...referenceFields,
    tokenRateLimits: list(limitSchema('tokens'), {
      description: 'limits, all of which apply',
      item: 'limit',
      minItems: 1,
      maxItems: 20,
    }),
    requestRateLimits: list(limitSchema('requests'), {
      description:
        'limits on the number of requests, all of which apply; each is counted before it is sent to the model ([reservation.md](reservation.md#requests-and-concurrency))',
      item: 'limit',
      maxItems: 20,
    }),
    concurrency: optional(
      integer(1, 1_000_000, {
        description:
          'maximum number of requests of one user in progress ([reservation.md](reservation.md#requests-and-concurrency))',
        otherwise: 'any number',
      }),
    ),
    billingRate: optional(pricesSchema),
    weights: optional(weightsSchema),
  },
  { closed: true, others: ['tokenRateLimitRef'] },
)

const subscriptionSpec = object(
  {
    owner: subjects({
      description: 'who may use the Subscription: any of these users or groups',
      otherwise: 'nobody',
    }),
    modelRefs: list(billedModel, {
      description:
        'the models that it pays for; if a model is listed twice, the first entry counts',
      item: 'model',
      minItems: 1,
      maxItems: maxModels,
      cut: true,
    }),
    limits: namedLimitsSchema(
      ['user', 'group', 'subscription'],
      'limits on the use of several models, or of several users together, in addition to those of its models',
      { models: limitedModelsSchema(reference, 'all of the Subscription') },
    ),
    calendar: optional(calendarSchema("the Tenant's")),
    tokenMetadata: attribution,
    admission: optional(admission),
    notify: optional(notify),
    priority: withDefault(
      integer(-2_147_483_648, 2_147_483_647, {
        description:
          "a new key belongs to the caller's Subscription with the highest priority; a negative one counts as 0",
        otherwise: '0',
      }),
      0,
    ),
  },
  {
    others: ['billingMetadata', 'guardrails'],
  },
)

const externalOidc = object(
  {
    issuerUrl: text({
      description: 'issuer of the provider, exactly as in its tokens',
      maxLength: 2_048,
      pattern: '^https://[!-"$->@-~]+$',
      form: 'an https URL',
    }),
    clientId: text({ description: 'audience that its tokens must name', minLength: 1 }),
    ttl: withDefault(
      integer(30, 2_147_483_647, {
        description: 'seconds for which an accepted token is cached',
        otherwise: '300',
      }),
      300,
    ),
  },
  { description: 'another OIDC provider whose identity tokens are accepted' },
)

const tenantSpec = object(
  {
    limits: namedLimitsSchema(
      ['user', 'organization', 'installation'],
      'limits on all use, under any Subscription',
      { models: limitedModelsSchema(reference, 'all') },
    ),
    calendar: optional(calendarSchema()),
    ...partial({
      apiKeys: object(
        {
          maxExpirationDays: optional(
            integer(1, 36_500, {
              description: 'longest lifetime of a key',
              otherwise: '`API_KEY_MAX_EXPIRATION_DAYS`',
            }),
          ),
        },
        { description: 'rules for keys', others: ['deletionRetentionDays'] },
      ),
      externalOIDC: externalOidc,
      telemetry: object(
        {
          enabled: optional(
            boolean({
              description: 'whether the metrics of usage by user and subscription are exported',
              otherwise: '`true`',
            }),
          ),
          metrics: withDefault(
            object(
              partial({
                captureOrganization: boolean({
                  description: 'adds the labels `organization_id` and `cost_center`',
                  otherwise: '`false`',
                }),
                captureUser: boolean({
                  description:
                    'whether there is a label `user`, by name or, with `METRICS_USER_KEY`, as a hash',
                  otherwise: '`true`',
                }),
                captureGroup: boolean({
                  description:
                    "adds the label `group`: the caller's group that owns the subscription",
                  otherwise: '`false`',
                }),
                captureModelUsage: boolean({
                  description: 'whether tokens have a label `model`',
                  otherwise: '`true`',
                }),
              }),
              { description: 'labels of these metrics' },
            ),
            {},
          ),
        },
        { description: 'metrics of usage by user and subscription', others: ['logs'] },
      ),
    }),
  },
  {
    others: ['gatewayRef', 'guardrails', 'maasApi', 'payloadProcessing'],
  },
)

const provider = {
  provider: text({ description: 'provider of the model', minLength: 1, maxLength: 63 }),
  endpoint: text({
    description: 'host of its API',
    minLength: 1,
    maxLength: 253,
    pattern: '^([a-z0-9]([-a-z0-9]*[a-z0-9])?\\.)+[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?$',
    form: 'the domain name of a host, like api.example.com',
    rules: [
      {
        message: 'has an invalid port',
        holds: (endpoint: string) => URL.canParse(`https://${endpoint}`),
      },
    ],
  }),
}

const externalModelSpec = object(
  {
    ...provider,
    targetModel: optional(upstreamModelSchema),
    credentialRef: credentialReferenceSchema,
  },
  { others: ['tlsInsecureSkipVerify'] },
)

/** Older definitions of the kind have no `type`. */
const providerAuth = object({
  type: withDefault(text({ enum: ['simple', 'apikey', 'sigv4', 'oauth2'] }), 'simple'),
  secretRef: credentialReferenceSchema,
})

const externalProviderSpec = object({ ...provider, auth: providerAuth, config: labels() })

const providedModelSpec = object({
  modelName: optional(text({ ...plainName, maxLength: 253 })),
  externalProviderRefs: list(
    object({
      ref: object({
        name: text({ minLength: 1, maxLength: 253, pattern: dnsName, form: inLowerCase }),
      }),
      targetModel: upstreamModelSchema,
      apiFormat: text({
        minLength: 1,
        maxLength: 63,
        pattern: '^[!-~]+$',
        form: 'of visible ASCII',
      }),
      path: optional(
        text({
          maxLength: 512,
          pattern: '^/[!-~]*$',
          form: 'a path of visible ASCII, like /v1/messages',
          refuses: [{ pattern: '[?#]', message: 'must have no query or fragment' }],
        }),
      ),
      weight: withDefault(integer(0, 100), 1),
      config: labels(),
      auth: optional(providerAuth),
    }),
    { item: 'provider', minItems: 1, maxItems: 64 },
  ),
})

/** The specs of our kinds, in the order of the docs. */
export const specSchemas = {
  ModelRef: modelRefSpec,
  AccessPolicy: accessPolicySpec,
  Subscription: subscriptionSpec,
  Tenant: tenantSpec,
} as const

/** The legacy tiers: `data.tiers` of their ConfigMap, after parsing. */
const tiers = list(
  object({
    name: text({ minLength: 1 }),
    displayName: optional(text({ pattern: '[^ \\t\\r\\n\\f\\v]', form: 'more than blanks' })),
    description: withDefault(text({ maxLength: 4_096 }), ''),
    level: withDefault(integer(-2_147_483_648, 2_147_483_647), 0),
    groups: list(text({ minLength: 1 })),
  }),
  { unique: 'name' },
)

/** The fields that identify a document's kind. */
export const envelopeSchema = object({ apiVersion: text(), kind: text() })

const nameOfModel: Partial<Schema> = {
  refuses: [{ pattern: '^.{64}', message: 'must have at most 63 characters to be referred to' }],
}
const nameOfTenant = { pattern: '^default-tenant$', form: 'default-tenant; there is one Tenant' }
const ofTenants: Partial<Schema> = {
  pattern: `^${tenantsNamespace}$`,
  form: `${tenantsNamespace}; others are not watched`,
}
const externalMetadata = metadata('default', {}, ofModel)
const policyMetadata = metadata(subscriptionNamespace, {}, ofPolicy)

/** A whole document with these fields. */
function document<Of extends Readonly<Record<string, Schema>>>(fields: Of) {
  const more = { others: ['status', 'binaryData', 'immutable'] }
  return object({ apiVersion: optional(text()), kind: optional(text()), ...fields }, more)
}

const othersOfAiTenant = ['tenantNamespace', 'gateway', 'domain', 'tls', 'rbac', 'guardrails']

/** Whole documents, by the kind that they are read as. */
export const documentSchemas = {
  ModelRef: document({
    metadata: metadata('default', nameOfModel, ofModel),
    spec: modelRefSpec,
  }),
  ExternalModel: document({ metadata: externalMetadata, spec: externalModelSpec }),
  /** In another group than the one above; it names its providers. */
  'ExternalModel.inference.opendatahub.io': document({
    metadata: externalMetadata,
    spec: providedModelSpec,
  }),
  ExternalProvider: document({ metadata: externalMetadata, spec: externalProviderSpec }),
  AITenant: document({
    metadata: metadata(tenantsNamespace, {}, ofTenants),
    spec: withDefault(object({ oidc: optional(externalOidc) }, { others: othersOfAiTenant }), {}),
  }),
  AccessPolicy: document({ metadata: policyMetadata, spec: accessPolicySpec }),
  Subscription: document({ metadata: policyMetadata, spec: subscriptionSpec }),
  Tenant: document({
    metadata: metadata(subscriptionNamespace, nameOfTenant, ofPolicy),
    spec: withDefault(tenantSpec, {}),
  }),
  ConfigMap: document({
    metadata: metadata(subscriptionNamespace),
    // Unlike other lists it must not be missing.
    data: object({ tiers: { ...tiers, missing: undefined } }),
  }),
  ...routingDocumentSchemas,
} as const
