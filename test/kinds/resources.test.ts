import { test } from 'tap'
import { statuses } from '../../k8s/status-schemas.ts'
import { formatPath } from '../../src/formats/fields.ts'
import type { Schema } from '../../src/formats/schema.ts'
import { openableFields } from '../../src/kinds/body-fields.ts'
import { documentSchemas } from '../../src/kinds/resource-schemas.ts'
import type { Subscription, Tenant } from '../../src/kinds/resources.ts'
import { defaultServer } from '../../src/models/rules/reading/parse-model-server.ts'
import { parseResource } from '../../src/models/rules/reading/parse-resource.ts'
import {
  accessPolicy,
  modelRef,
  resourceOf,
  subscription,
  type WrittenDocument,
} from '../support/documents.ts'

const model = modelRef('small')
const policy = accessPolicy('open', ['llm/small'], { groups: ['team-a'] })
const paid = subscription('team-a', { groups: ['team-a'] }, { 'llm/small': [[100, '1m']] })
const tenant: WrittenDocument = {
  apiVersion: 'tollgate.dev/v1alpha1',
  kind: 'Tenant',
  metadata: { name: 'default-tenant' },
  spec: {},
}

/** The document with the value at this path replaced; undefined removes it. */
function change(document: unknown, path: readonly (string | number)[], value: unknown): unknown {
  const copy = structuredClone(document)
  let place = copy as Record<string | number, unknown>
  for (const step of path.slice(0, -1)) {
    place[step] ??= {}
    place = place[step] as Record<string | number, unknown>
  }
  place[path.at(-1) as string] = value
  return copy
}

/** The problems of a document as `path message`. */
function problemsOf(document: unknown): string[] {
  const result = parseResource(document)
  if (!('problems' in result)) return []
  return result.problems.map(({ path, message }) => `${formatPath(path)} ${message}`.trim())
}

test('each kind is read in both API groups', async (t) => {
  for (const [document, kind] of [
    [model, 'MaaSModelRef'],
    [policy, 'MaaSAuthPolicy'],
    [paid, 'MaaSSubscription'],
    [tenant, 'Tenant'],
    [tenant, 'MaasTenantConfig'],
  ] as const) {
    const original = { ...document, apiVersion: 'maas.opendatahub.io/v1alpha1', kind }
    t.strictSame(resourceOf(original), resourceOf(document), kind)
  }
})

test('the kinds of one API group are refused in the other', async (t) => {
  t.strictSame(problemsOf({ ...model, kind: 'MaaSModelRef' }), [
    'kind must be one of ModelRef, AccessPolicy, Subscription, Tenant',
  ])
  t.strictSame(problemsOf({ ...model, apiVersion: 'maas.opendatahub.io/v1alpha1' }), [
    'kind must be one of MaaSModelRef, MaaSAuthPolicy, MaaSSubscription, ExternalModel, MaasTenantConfig, Tenant, AITenant',
  ])
  t.strictSame(problemsOf({ ...model, kind: 'constructor' }).length, 1)
})

test('an AITenant counts only if it is that of the default tenant', async (t) => {
  const oidc = { issuerUrl: 'https://idp.example', clientId: 'models' }
  const aiTenant = (metadata: object) => ({
    apiVersion: 'maas.opendatahub.io/v1alpha1',
    kind: 'AITenant',
    metadata: { name: 'models-as-a-service', namespace: 'ai-tenants', ...metadata },
    spec: { oidc, gateway: { name: 'own' } },
  })
  t.match(resourceOf(aiTenant({})), { externalOidc: { ...oidc, ttlSeconds: 300 } })
  t.match(parseResource(aiTenant({ name: 'red' })), { ignored: /AITenant is of another tenant/ })
  t.match(problemsOf(aiTenant({ namespace: 'llm' })), [/^metadata.namespace must be ai-tenants/])
  t.match(problemsOf(aiTenant({ name: 7 })), [/^metadata.name must be a string/])
})

test('other kinds are ignored', async (t) => {
  for (const [apiVersion, kind] of [
    ['v1', 'Service'],
    ['apps/v1', 'Deployment'],
    ['constructor', 'ModelRef'],
    ['__proto__', 'ModelRef'],
  ]) {
    t.hasProp(parseResource({ apiVersion, kind }), 'ignored', `${apiVersion} ${kind}`)
  }
})

test('another version of our groups is a problem that names the known one', async (t) => {
  for (const [apiVersion, message] of [
    ['tollgate.dev/v1', 'must be tollgate.dev/v1alpha1'],
    ['maas.opendatahub.io/v2', 'must be maas.opendatahub.io/v1alpha1'],
  ]) {
    const problems = [{ path: ['apiVersion'], message }]
    t.strictSame(parseResource({ apiVersion, kind: 'ModelRef' }), { problems })
  }
})

test('a document that is not a resource is a problem', async (t) => {
  for (const document of [null, undefined, 'text', 5, true, [], [model]]) {
    t.equal(problemsOf(document).length, 1, JSON.stringify(document))
  }
  t.strictSame(problemsOf({}), ['apiVersion is required', 'kind is required'])
  t.strictSame(problemsOf({ apiVersion: 1, kind: [] }), [
    'apiVersion must be a string, is a number: write it in quotes',
    'kind must be a string, is a list',
  ])
})

test('all fields of a model are read', async (t) => {
  const document = modelRef('small', {
    endpointOverride: 'https://small.example/x',
    modelIds: ['Small-7B', 'small:latest'],
    modelFields: ['fallbacks'],
    state: 'shared',
  })
  document.metadata.annotations = { 'openshift.io/display-name': 'Small' }
  document.metadata.creationTimestamp = '2026-01-01T00:00:00Z'
  t.strictSame(resourceOf(document), {
    kind: 'ModelRef',
    metadata: {
      name: 'small',
      namespace: 'llm',
      annotations: { 'openshift.io/display-name': 'Small' },
      createdAt: Date.UTC(2026, 0, 1),
      deleting: false,
    },
    backend: { kind: 'LLMInferenceService', name: 'small' },
    endpointOverride: 'https://small.example/x',
    backendUrl: 'http://small.example:8000',
    modelIds: ['Small-7B', 'small:latest'],
    modelFields: ['fallbacks'],
    state: 'shared',
    server: defaultServer,
    limits: [],
  })
})

test('a missing namespace has its default', async (t) => {
  for (const [document, namespace] of [
    [model, 'default'],
    [policy, 'models-as-a-service'],
    [paid, 'models-as-a-service'],
    [tenant, 'models-as-a-service'],
  ] as const) {
    t.match(resourceOf(change(document, ['metadata', 'namespace'], undefined)), {
      metadata: { namespace },
    })
  }
})

test('of a model with two sets of limits the first counts', async (t) => {
  const twice = structuredClone(paid)
  const refs = twice.spec.modelRefs as object[]
  refs.push({ namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 7, window: '1h' }] })
  t.match(resourceOf(twice), {
    modelRefs: [{ namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 100 }] }],
  })
  t.equal((resourceOf(twice) as { modelRefs?: unknown[] }).modelRefs?.length, 1)
})

test('optional fields may be missing', async (t) => {
  t.match(resourceOf(paid), {
    priority: 0,
    attribution: { organizationId: '', costCenter: '', labels: {} },
    modelRefs: [{ billingRate: undefined }],
  })
  t.match(resourceOf(change(paid, ['spec', 'owner'], undefined)), {
    owner: { users: [], groups: [] },
  })
  t.match(resourceOf(tenant), { maxExpirationDays: undefined, telemetry: undefined })
  const metrics = { captureUser: false, captureGroup: true }
  t.strictSame(
    (resourceOf(change(tenant, ['spec', 'telemetry'], { enabled: true, metrics })) as Tenant)
      .telemetry,
    {
      enabled: true,
      captureUser: false,
      captureGroup: true,
    },
  )
  t.match(resourceOf(change(tenant, ['spec'], undefined)), { maxExpirationDays: undefined })
})

test('the other fields of a subscription are read', async (t) => {
  let document = change(paid, ['spec', 'tokenMetadata'], {
    organizationId: 'o',
    costCenter: 'c',
    labels: { a: 'b' },
  })
  document = change(document, ['spec', 'priority'], -5)
  document = change(document, ['spec', 'modelRefs', 0, 'billingRate'], { perToken: '0.01' })
  t.match(resourceOf(document), {
    priority: -5,
    attribution: { organizationId: 'o', costCenter: 'c', labels: { a: 'b' } },
    modelRefs: [
      {
        billingRate: { perToken: '0.01' },
        tokenRateLimits: [{ limit: 100, window: '1m', windowMs: 60_000 }],
      },
    ],
  })
})

const limits = ['spec', 'modelRefs', 0, 'tokenRateLimits', 0] as const
const long = 'x'.repeat(64)
const windowRule = 'must be 1 to 9999 and s, m or h, like 1m, and at most 8784h'

const validations = [
  [model, ['metadata'], undefined, /^metadata is required/],
  [model, ['metadata', 'name'], undefined, 'metadata.name is required'],
  [model, ['metadata', 'name'], '', 'metadata.name must not be empty'],
  [model, ['metadata', 'name'], 'Small', 'metadata.name must be a DNS name in lower case'],
  [model, ['metadata', 'name'], 'a/b', 'metadata.name must be a DNS name in lower case'],
  [model, ['metadata', 'name'], 'a\nb', 'metadata.name must be a DNS name in lower case'],
  [model, ['metadata', 'name'], '..', 'metadata.name must be a DNS name in lower case'],
  [
    model,
    ['metadata', 'name'],
    5,
    'metadata.name must be a string, is a number: write it in quotes',
  ],
  [
    model,
    ['metadata', 'name'],
    long,
    'metadata.name must have at most 63 characters to be referred to',
  ],
  [model, ['metadata', 'namespace'], 'a.b', 'metadata.namespace must be a DNS label in lower case'],
  [model, ['metadata', 'namespace'], long, 'metadata.namespace must have at most 63 characters'],
  ...['v1', 'internal', 'maas-api', 'console', 'health', 'docs'].map(
    (name) =>
      [
        model,
        ['metadata', 'namespace'],
        name,
        `metadata.namespace "${name}" would hide a route of the gateway`,
      ] as const,
  ),
  [model, ['metadata', 'annotations'], { a: 5 }, 'metadata.annotations.a must be a string'],
  [model, ['spec'], undefined, /^spec is required/],
  [model, ['spec'], 'text', /^spec must be an object/],
  [model, ['spec', 'modelRef'], undefined, /^spec\.modelRef is required/],
  [model, ['spec', 'modelRef', 'kind'], undefined, 'spec.modelRef.kind is required'],
  [
    model,
    ['spec', 'modelRef', 'kind'],
    'Service',
    'spec.modelRef.kind must be one of LLMInferenceService, ExternalModel',
  ],
  [model, ['spec', 'modelRef', 'name'], '', 'spec.modelRef.name must not be empty'],
  [
    model,
    ['spec', 'modelRef', 'name'],
    'x'.repeat(254),
    'spec.modelRef.name must have at most 253 characters',
  ],
  [model, ['spec', 'backendUrl'], '', 'spec.backendUrl must not be empty'],
  ...[
    'small:8000',
    'ftp://small',
    'file:///etc',
    'http://',
    '//small',
    'javascript:0',
    '\nx',
    'http://small:0',
    'http://small:000/v1',
  ].map(
    (url) =>
      [
        model,
        ['spec', 'backendUrl'],
        url,
        'spec.backendUrl must be a URL like http://host:port/path',
      ] as const,
  ),
  ...['http://a:b@small', 'http://a@small', 'http://small?x=1', 'http://small#x'].map(
    (url) =>
      [
        model,
        ['spec', 'backendUrl'],
        url,
        'spec.backendUrl must have no user, password, query or fragment',
      ] as const,
  ),
  [
    model,
    ['spec', 'backendUrl'],
    `https://${'a.'.repeat(126)}io:80/`,
    'spec.backendUrl must have a host of at most 253 characters',
  ],
  [
    model,
    ['spec', 'endpointOverride'],
    'small',
    'spec.endpointOverride must be a URL like http://host:port/path',
  ],
  [model, ['spec', 'modelIds'], 'small', 'spec.modelIds must be a list'],
  [model, ['spec', 'modelIds'], [''], 'spec.modelIds[0] must not be empty'],
  [model, ['spec', 'modelIds'], ['a', 'b\n'], /^spec\.modelIds\[1\] must be free of/],
  [
    model,
    ['spec', 'modelIds'],
    ['x'.repeat(257)],
    'spec.modelIds[0] must have at most 256 characters',
  ],
  [model, ['spec', 'modelFields'], ['fallback'], /^spec\.modelFields\[0\] must be one of /],
  [model, ['spec', 'state'], 'open', 'spec.state must be one of closed, shared'],

  [
    policy,
    ['metadata', 'namespace'],
    'llm',
    'metadata.namespace must be models-as-a-service; others are not watched',
  ],
  [policy, ['spec'], undefined, /^spec is required/],
  [policy, ['spec', 'modelRefs'], undefined, 'spec.modelRefs needs at least 1 model'],
  [policy, ['spec', 'modelRefs'], [], 'spec.modelRefs needs at least 1 model'],
  [policy, ['spec', 'modelRefs'], {}, /^spec\.modelRefs must be a list/],
  [policy, ['spec', 'modelRefs', 0], 'llm/small', /^spec\.modelRefs\[0\] must be an object/],
  [policy, ['spec', 'modelRefs', 0, 'name'], undefined, 'spec.modelRefs[0].name is required'],
  [policy, ['spec', 'modelRefs', 0, 'name'], '', 'spec.modelRefs[0].name must not be empty'],
  [
    policy,
    ['spec', 'modelRefs', 0, 'name'],
    long,
    'spec.modelRefs[0].name must have at most 63 characters',
  ],
  [
    policy,
    ['spec', 'modelRefs', 0, 'namespace'],
    undefined,
    'spec.modelRefs[0].namespace is required',
  ],
  [
    policy,
    ['spec', 'modelRefs', 0, 'namespace'],
    long,
    'spec.modelRefs[0].namespace must have at most 63 characters',
  ],
  [policy, ['spec', 'subjects'], undefined, 'spec.subjects needs at least one group or user'],
  [
    policy,
    ['spec', 'subjects'],
    { users: [], groups: [] },
    'spec.subjects needs at least one group or user',
  ],
  [policy, ['spec', 'subjects', 'groups'], ['team-a'], 'spec.subjects.groups[0] must be an object'],
  [policy, ['spec', 'subjects', 'groups'], [{}], 'spec.subjects.groups[0].name is required'],
  [
    policy,
    ['spec', 'subjects', 'groups'],
    [{ name: 'a"b' }],
    /^spec\.subjects\.groups\[0\]\.name must be free of/,
  ],
  [policy, ['spec', 'subjects', 'users'], ['a\\b'], /^spec\.subjects\.users\[0\] must be free of/],
  [policy, ['spec', 'subjects', 'users'], ['a\nb'], /^spec\.subjects\.users\[0\] must be free of/],
  [policy, ['spec', 'subjects', 'users'], [''], 'spec.subjects.users[0] must not be empty'],
  [
    policy,
    ['spec', 'subjects', 'users'],
    [5],
    'spec.subjects.users[0] must be a string, is a number: write it in quotes',
  ],
  [policy, ['spec', 'meteringMetadata'], 'x', /^spec\.meteringMetadata must be an object/],
  [
    policy,
    ['spec', 'meteringMetadata', 'labels'],
    { a: true },
    'spec.meteringMetadata.labels.a must be a string',
  ],

  [
    paid,
    ['metadata', 'namespace'],
    'llm',
    'metadata.namespace must be models-as-a-service; others are not watched',
  ],
  [
    paid,
    ['spec', 'owner', 'groups'],
    [{ name: 'a"b' }],
    /^spec\.owner\.groups\[0\]\.name must be free of/,
  ],
  [paid, ['spec', 'owner', 'users'], ['a\\b'], /^spec\.owner\.users\[0\] must be free of/],
  [paid, ['spec', 'modelRefs'], [], 'spec.modelRefs needs at least 1 model'],
  [
    paid,
    ['spec', 'modelRefs', 0, 'name'],
    long,
    'spec.modelRefs[0].name must have at most 63 characters',
  ],
  [
    paid,
    ['spec', 'modelRefs', 0, 'tokenRateLimits'],
    undefined,
    'spec.modelRefs[0].tokenRateLimits needs at least 1 limit',
  ],
  [
    paid,
    ['spec', 'modelRefs', 0, 'tokenRateLimits'],
    [],
    'spec.modelRefs[0].tokenRateLimits needs at least 1 limit',
  ],
  [paid, [...limits, 'limit'], undefined, 'spec.modelRefs[0].tokenRateLimits[0].limit is required'],
  ...[0, -1, 1.5, 1_000_000_001, '100', true, Number.POSITIVE_INFINITY].map(
    (limit) =>
      [
        paid,
        [...limits, 'limit'],
        limit,
        'spec.modelRefs[0].tokenRateLimits[0].limit must be a whole number from 1 to 1000000000',
      ] as const,
  ),
  [
    paid,
    [...limits, 'window'],
    undefined,
    'spec.modelRefs[0].tokenRateLimits[0].window is required',
  ],
  ...['0m', '1d', '8785h', '9999h', '01m', '10000s', '1.5h', '', '1h30m', ' 1m', 'm'].map(
    (window) =>
      [
        paid,
        [...limits, 'window'],
        window,
        `spec.modelRefs[0].tokenRateLimits[0].window ${windowRule}`,
      ] as const,
  ),
  [
    paid,
    ['spec', 'modelRefs', 0, 'billingRate'],
    { perToken: 5 },
    'spec.modelRefs[0].billingRate.perToken must be a string, is a number: write it in quotes',
  ],
  ...[1.5, '5', 2_147_483_648, -2_147_483_649].map(
    (priority) =>
      [
        paid,
        ['spec', 'priority'],
        priority,
        'spec.priority must be a whole number from -2147483648 to 2147483647',
      ] as const,
  ),

  [
    tenant,
    ['metadata', 'name'],
    'other',
    'metadata.name must be default-tenant; there is one Tenant',
  ],
  [
    tenant,
    ['metadata', 'namespace'],
    'other',
    'metadata.namespace must be models-as-a-service; others are not watched',
  ],
  [
    tenant,
    ['spec', 'apiKeys', 'maxExpirationDays'],
    0,
    'spec.apiKeys.maxExpirationDays must be a whole number from 1 to 36500',
  ],
  [tenant, ['spec', 'externalOIDC'], {}, /^spec\.externalOIDC\.issuerUrl is required/],
  [
    tenant,
    ['spec', 'telemetry', 'metrics', 'captureUser'],
    'no',
    /^spec\.telemetry\.metrics\.captureUser must be/,
  ],
  [
    tenant,
    ['spec', 'externalOIDC'],
    { issuerUrl: 'http://a', clientId: 'c' },
    'spec.externalOIDC.issuerUrl must be an https URL',
  ],
  [
    tenant,
    ['spec', 'externalOIDC'],
    { issuerUrl: 'https://a', clientId: '' },
    'spec.externalOIDC.clientId must not be empty',
  ],
  [
    tenant,
    ['spec', 'externalOIDC'],
    { issuerUrl: 'https://a', clientId: 'c', ttl: 29 },
    /^spec\.externalOIDC\.ttl must be a whole number from 30/,
  ],
] as const

test('each broken rule is reported with its path and the fix', async (t) => {
  for (const [document, path, value, expected] of validations) {
    const problems = problemsOf(change(document, path, value))
    const title = `${document.kind} ${formatPath(path)} = ${JSON.stringify(value)?.slice(0, 40)}`
    if (typeof expected === 'string') t.strictSame(problems, [expected], title)
    else t.match(problems[0], expected, title)
  }
})

test('the limits of each rule are valid', async (t) => {
  for (const [document, path, value] of [
    [model, ['metadata', 'name'], 'x'.repeat(63)],
    [model, ['metadata', 'name'], 'a.b-c.0'],
    [model, ['spec', 'modelRef', 'kind'], 'ExternalModel'],
    [model, ['spec', 'modelRef', 'name'], 'x'.repeat(253)],
    [model, ['spec', 'backendUrl'], undefined],
    [model, ['spec', 'backendUrl'], 'https://small.example/base/'],
    [model, ['spec', 'backendUrl'], 'http://[::1]:8000'],
    [model, ['spec', 'backendUrl'], `https://${'a.'.repeat(126)}a`],
    [model, ['spec', 'modelIds'], ['org/Model-7B:latest']],
    [model, ['spec', 'modelFields'], [...openableFields]],
    [model, ['spec', 'state'], 'closed'],
    [policy, ['spec', 'subjects'], { users: ['system:serviceaccount:a:b'] }],
    [paid, ['spec', 'owner'], { users: [], groups: [] }],
    [paid, [...limits, 'limit'], 1],
    [paid, [...limits, 'limit'], 1_000_000_000],
    [paid, [...limits, 'window'], '8784h'],
    [paid, [...limits, 'window'], '9999m'],
    [paid, ['spec', 'priority'], 2_147_483_647],
    [paid, ['spec', 'priority'], -2_147_483_648],
    [tenant, ['spec', 'apiKeys', 'maxExpirationDays'], 1],
    [tenant, ['spec', 'externalOIDC'], { issuerUrl: 'https://a', clientId: 'c', ttl: 30 }],
  ] as const) {
    t.strictSame(problemsOf(change(document, path, value)), [], formatPath(path))
  }
})

/** The paths of lists, maps and texts that have no maximum. */
function unboundIn(schema: Schema, path: string): readonly string[] {
  const { type, properties = {}, items, additionalProperties, maxItems, maxProperties } = schema
  const isBound =
    type === 'string'
      ? schema.enum !== undefined || schema.maxLength !== undefined
      : type === 'array'
        ? maxItems !== undefined
        : additionalProperties === undefined || maxProperties !== undefined
  const below = Object.entries(properties).flatMap(([name, each]) =>
    unboundIn(each, `${path}.${name}`),
  )
  const inside = [items, additionalProperties].flatMap((each) =>
    each ? unboundIn(each, `${path}[]`) : [],
  )
  return [...(isBound ? [] : [path]), ...below, ...inside]
}

test('every list, map and text has a maximum', async (t) => {
  const all = { ...documentSchemas, ...statuses }
  t.strictSame(
    Object.entries(all).flatMap(([kind, schema]) => unboundIn(schema, kind)),
    [],
  )
})

test('of a list that is too long the first items are in force', async (t) => {
  const many = (count: number, of: (n: number) => unknown) =>
    Array.from({ length: count }, (_, n) => of(n))
  const names = many(5_001, (n) => `name-${n}`)
  const limit = [{ limit: 5, window: '1m' }]
  for (const [document, path, value, first] of [
    [model, ['spec', 'modelIds'], names, 256],
    [model, ['spec', 'modelIds'], many(100, (n) => `${n}`.padStart(250, 'x')), 65],
    [model, ['spec', 'modelIds'], many(100, (n) => `${n}`.padStart(200, 'ü')), 41],
    [policy, ['spec', 'subjects', 'users'], names, 5_000],
    [policy, ['spec', 'subjects', 'groups'], names.map((name) => ({ name })), 5_000],
    [policy, ['spec', 'modelRefs'], names.map((name) => ({ namespace: 'llm', name })), 5_000],
    [paid, ['spec', 'owner', 'users'], names, 5_000],
    [
      paid,
      ['spec', 'modelRefs'],
      names.map((name) => ({ namespace: 'llm', name, tokenRateLimits: limit })),
      5_000,
    ],
  ] as const) {
    const changed = change(document, path, value)
    t.match(problemsOf(changed), [
      new RegExp(`^${formatPath(path)} must have at most .*; the first ${first} are in force$`),
    ])
    const shorter = change(document, path, value.slice(0, first))
    t.strictSame(resourceOf(changed), resourceOf(shorter), formatPath(path))
    t.strictSame(problemsOf(shorter), [])
  }
  const labels = Object.fromEntries(names.map((name) => [name, 'a']))
  t.match(problemsOf(change(paid, ['spec', 'tokenMetadata'], { labels })), [/at most 1000 entries/])
})

test('limits are never cut', async (t) => {
  const many = Array.from({ length: 21 }, () => ({ limit: 5, window: '1m' }))
  for (const name of ['tokenRateLimits', 'requestRateLimits']) {
    const changed = change(paid, ['spec', 'modelRefs', 0, name], many)
    t.notOk('resource' in parseResource(changed))
    t.match(problemsOf(changed), [`spec.modelRefs[0].${name} must have at most 20 limits`])
  }
})

test('a bad price is a problem, and takes nothing out of force', async (t) => {
  const at = ['spec', 'modelRefs', 0, 'billingRate'] as const
  for (const perToken of ['$0.000002', '0,000002', 'free', '-0.1', '', 0.000002, 5, true, [], {}]) {
    const changed = change(paid, at, { perToken })
    t.match(resourceOf(changed), { modelRefs: [{ name: 'small', billingRate: undefined }] })
    t.match(problemsOf(changed), [/^spec\.modelRefs\[0\]\.billingRate\.perToken must/])
  }
  for (const perToken of ['1e-25', '1e12']) {
    const changed = change(paid, at, { perToken })
    t.match(problemsOf(changed), [/at most 12 digits before the point and 24 after it$/], perToken)
  }
  for (const rate of [{}, { perToken: null }, '0.1', 5, ['0.1']]) {
    const changed = change(paid, at, rate)
    t.match(resourceOf(changed), { modelRefs: [{ name: 'small', billingRate: undefined }] })
    t.match(problemsOf(changed), [/^spec\.modelRefs\[0\]\.billingRate/])
  }
  for (const [written, perToken] of [
    ['1.5e-07', '0.00000015'],
    ['2E-6', '0.000002'],
    ['.5', '0.5'],
    ['0', '0'],
  ] as const) {
    const changed = change(paid, at, { perToken: written })
    t.match(resourceOf(changed), { modelRefs: [{ billingRate: { perToken } }] })
    t.strictSame(problemsOf(changed), [], perToken)
  }
})

const ofEntry = ['spec', 'modelRefs', 0] as const
const original = 'maas.opendatahub.io/v1alpha1'

const withCredential = modelRef('small', { credential: { file: 'a' } })

test('an unknown field is a problem, and the document is in force without it', async (t) => {
  for (const [document, path, hint] of [
    [model, ['spec', 'backendURL'], 'did you mean backendUrl?'],
    [withCredential, ['spec', 'credential', 'heder'], 'did you mean header?'],
    [model, ['spec', 'timeouts', 'respond'], 'known are connect, idle, answer'],
    [model, ['metadata', 'annotation'], 'did you mean annotations?'],
    [model, ['metadata', 'lables'], 'did you mean labels?'],
    [model, ['statuss'], 'did you mean status?'],
    [model, ['sepc'], 'did you mean spec?'],
    [policy, [...ofEntry, 'nmae'], 'did you mean name?'],
    [policy, ['spec', 'subjects', 'group'], 'did you mean groups?'],
    [policy, ['spec', 'priority'], 'known are modelRefs, subjects, meteringMetadata'],
    [paid, ['spec', 'admision'], 'did you mean admission?'],
    [paid, ['spec', 'owner', 'user'], 'did you mean users?'],
    [paid, ['spec', 'concurrency'], 'it belongs to spec.modelRefs[]'],
    [paid, ['metadata', 'priority'], 'it belongs to spec'],
    [tenant, ['spec', 'apiKeys', 'maxExpirationDay'], 'did you mean maxExpirationDays?'],
  ] as const) {
    const whole = change(document, path, 'x')
    const result = parseResource(whole)
    t.hasProp(result, 'resource', formatPath(path))
    t.strictSame(problemsOf(whole), [`${formatPath(path)} is not known here (${hint})`])
  }
})

test('an unknown field takes the entry of its model out of force', async (t) => {
  const twice = structuredClone(paid)
  const refs = twice.spec.modelRefs as object[]
  refs.push({ namespace: 'llm', name: 'small', tokenRateLimits: [{ limit: 7, window: '1h' }] })
  refs.push({ namespace: 'llm', name: 'large', tokenRateLimits: [{ limit: 7, window: '1h' }] })
  for (const [path, value] of [
    [[...ofEntry, 'requestRateLimit'], [{ limit: 5, window: '1m' }]],
    [[...ofEntry, 'concurency'], 5],
    [[...ofEntry, 'admission'], { mode: 'reserve' }],
    [[...limits, 'burst'], 5],
    [[...ofEntry, 'billingRate'], { perTokn: '1' }],
    [[...ofEntry, 'concurency'], null],
  ] as const) {
    const resource = resourceOf(change(twice, path, value)) as Subscription
    t.strictSame(
      resource.modelRefs.map(({ name }) => name),
      ['large'],
      'neither it nor a later one for the same model is in force',
    )
    t.match(resource.outOfForce, [{ namespace: 'llm', name: 'small' }], formatPath(path))
    t.strictSame(resource.outOfForce?.[0]?.problems[0]?.path.slice(0, path.length), path)
  }
})

test('an unknown field of admission takes the Subscription out of force', async (t) => {
  const admission = { mode: 'reserve', overshotPercent: 5 }
  const result = parseResource(change(paid, ['spec', 'admission'], admission))
  t.notOk('resource' in result)
  t.match(result, {
    problems: [
      { path: ['spec', 'admission', 'overshotPercent'], message: /did you mean overshootPercent/ },
    ],
  })
})

test('fields of the original’s definitions and of Kubernetes are known', async (t) => {
  const metadata = {
    ...{ labels: { a: 'b' }, finalizers: ['a/b'], ownerReferences: [{}], managedFields: [{}] },
    ...{ uid: 'u', resourceVersion: '1', generation: 1, generateName: 'a-', selfLink: '/' },
    ...{ annotations: { a: 'b' }, creationTimestamp: '2026-01-01T00:00:00Z' },
  }
  const limit = [{ limit: 1, window: '1m' }]
  const entry = { namespace: 'llm', name: 'a', tokenRateLimits: limit, tokenRateLimitRef: 'b' }
  const oidc = { issuerUrl: 'https://a.example', clientId: 'a', ttl: 300 }
  const secret = { type: 'simple', secretRef: { name: 'a' } }
  const specs: readonly (readonly [kind: string, spec: object, more?: object])[] = [
    [
      'MaaSModelRef',
      { modelRef: { kind: 'ExternalModel', name: 'a', namespace: 'b' }, tenantRef: {} },
    ],
    ['MaaSAuthPolicy', { ...policy.spec, publicPaths: ['/docs'] }],
    ['MaaSSubscription', { owner: {}, modelRefs: [entry], billingMetadata: {}, guardrails: [] }],
    [
      'MaasTenantConfig',
      {
        apiKeys: { maxExpirationDays: 30, deletionRetentionDays: 90 },
        telemetry: { enabled: true, logs: { captureUser: false } },
        ...{ gatewayRef: { name: 'a' }, maasApi: {}, payloadProcessing: {}, guardrails: [] },
      },
      { name: 'default-tenant' },
    ],
    [
      'AITenant',
      { oidc, tenantNamespace: {}, gateway: {}, domain: 'a', tls: {}, rbac: {}, guardrails: [] },
      { name: 'models-as-a-service', namespace: 'ai-tenants' },
    ],
    [
      'ExternalModel',
      {
        ...{ provider: 'openai', endpoint: 'a.example', targetModel: 'm' },
        ...{ credentialRef: { name: 'a' }, tlsInsecureSkipVerify: false },
      },
    ],
  ]
  for (const [kind, spec, more] of specs) {
    const document = {
      apiVersion: original,
      kind,
      metadata: { name: 'a', ...metadata, ...more },
      spec,
    }
    t.strictSame(problemsOf({ ...document, status: { phase: 'Active', any: 1 } }), [], kind)
    t.hasProp(parseResource(document), 'resource', kind)
  }
  const ref = {
    ref: { name: 'a' },
    targetModel: 'm',
    apiFormat: 'messages',
    path: '/v1',
    weight: 1,
  }
  for (const [kind, spec] of [
    [
      'ExternalModel',
      { modelName: 'm', externalProviderRefs: [{ ...ref, config: {}, auth: secret }] },
    ],
    ['ExternalProvider', { provider: 'a', endpoint: 'a.example', auth: secret, config: {} }],
  ] as const) {
    const apiVersion = 'inference.opendatahub.io/v1alpha1'
    t.strictSame(
      problemsOf({ apiVersion, kind, metadata: { name: 'a', ...metadata }, spec }),
      [],
      kind,
    )
  }
  const served = { model: { uri: 'hf://a' }, router: { route: {} }, template: { containers: [] } }
  t.strictSame(
    problemsOf({
      ...{ apiVersion: 'serving.kserve.io/v1alpha1', kind: 'LLMInferenceService' },
      ...{ metadata: { name: 'a', ...metadata }, spec: served, status: { conditions: [] } },
    }),
    [],
  )
})

test('what an API server has pruned is read as it was applied', async (t) => {
  const annotated = (applied: unknown, stored: unknown) =>
    change(stored, ['metadata', 'annotations'], {
      'kubectl.kubernetes.io/last-applied-configuration':
        typeof applied === 'string' ? applied : JSON.stringify(applied),
    })
  const wrong = change(paid, [...ofEntry, 'concurency'], 5)
  const warned = change(model, ['spec', 'backendURL'], 'http://a')
  t.match(resourceOf(annotated(wrong, paid)), { modelRefs: [], outOfForce: [{ name: 'small' }] })
  t.strictSame(problemsOf(annotated(warned, model)), [
    'spec.backendURL is not known here (did you mean backendUrl?)',
  ])
  const since = change(paid, [...limits, 'limit'], 99)
  t.notOk('outOfForce' in resourceOf(annotated(wrong, since)), 'it has been changed since')
  const shorter = change(wrong, ['spec', 'modelRefs', 1], (paid.spec.modelRefs as object[])[0])
  t.notOk('outOfForce' in resourceOf(annotated(shorter, paid)))
  for (const applied of ['{', 'null', '[]', '{"spec":5}', '{"spec":{"modelRefs":{}}}']) {
    t.strictSame(problemsOf(annotated(applied, paid)), [], applied)
  }
  const { spec, ...bare } = tenant
  const limited = { limits: [{ name: 'all', limit: 5, window: 'day' }] }
  for (const applied of [
    { ...bare, spce: limited },
    { ...bare, metadata: { ...bare.metadata, spec: limited } },
  ]) {
    t.match(resourceOf(annotated(applied, bare)), { unreadable: [{}] }, 'beside the spec')
    t.match(resourceOf(annotated(applied, { ...bare, spec })), { unreadable: undefined }, 'since')
  }
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  t.strictSame(problemsOf(annotated(`{"spec":{"backendUrl":${deep}}}`, model)), [], 'too deep')
})

test('all problems are found at once', async (t) => {
  let document = change(paid, ['metadata', 'name'], 'A')
  document = change(document, [...limits, 'limit'], 0)
  document = change(document, [...limits, 'window'], '0m')
  document = change(document, ['spec', 'priority'], 'high')
  t.equal(problemsOf(document).length, 4)
})
