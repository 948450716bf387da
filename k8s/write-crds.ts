/**
 * `npm run crds`: writes k8s/crds, a CustomResourceDefinition for each of our kinds, and
 * docs/resources.md, from the schemas in src/kinds, kind-schemas.ts and status-schemas.ts; a test checks that they are up to date.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { renderResources } from '../docs/render-resources.ts'
import { object, optional, type Rule, type Schema } from '../src/formats/schema.ts'
import { kindSchemas } from './kind-schemas.ts'
import { generatedSchemas, generatedStatus, statuses } from './status-schemas.ts'

interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'date'
  readonly jsonPath: string
}

interface Kind {
  readonly kind: string
  readonly plural: string
  readonly shortName: string
  readonly columns: readonly Column[]
  readonly description: string
  readonly spec: Schema
  readonly isSpecRequired: boolean
  readonly rules: readonly Pick<Rule, 'cel' | 'message'>[]
  readonly status: Schema
}

const phase: Column = { name: 'Phase', type: 'string', jsonPath: '.status.phase' }
const models: Column = { name: 'Models', type: 'integer', jsonPath: '.status.models' }
const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
const ofModel: Column = { name: 'Model', type: 'string', jsonPath: '.spec.modelRef.name' }
const condition = (type: string): Column => ({
  name: type,
  type: 'string',
  jsonPath: `.status.conditions[?(@.type=="${type}")].status`,
})

/** None of the short names is used by a kind of OpenShift or Kuadrant. */
export const kinds: readonly Kind[] = [
  own('ModelRef', 'modelrefs', 'mref', [
    phase,
    { name: 'Endpoint', type: 'string', jsonPath: '.status.endpoint' },
    age,
  ]),
  own('AccessPolicy', 'accesspolicies', 'apol', [phase, models, age]),
  own('Subscription', 'subscriptions', 'tgsub', [
    phase,
    { name: 'Priority', type: 'integer', jsonPath: '.spec.priority' },
    models,
    age,
  ]),
  own('Tenant', 'tenants', 'tgt', [phase, age]),
  written('ModelAuthPolicy', 'modelauthpolicies', 'tgauth', {
    name: 'Policies',
    type: 'integer',
    jsonPath: '.spec.accessPolicyCount',
  }),
  written('TokenRateLimitPolicy', 'tokenratelimitpolicies', 'tgtrlp', {
    name: 'Subscriptions',
    type: 'integer',
    jsonPath: '.spec.subscriptionCount',
  }),
]

function own(
  kind: keyof typeof kindSchemas,
  plural: string,
  shortName: string,
  columns: readonly Column[],
): Kind {
  return { kind, plural, shortName, columns, ...kindSchemas[kind], status: statuses[kind] }
}

function written(
  kind: keyof typeof generatedSchemas,
  plural: string,
  shortName: string,
  column: Column,
): Kind {
  const columns = [ofModel, column, condition('Accepted'), condition('Enforced'), age]
  const status = generatedStatus
  return {
    kind,
    plural,
    shortName,
    columns,
    ...generatedSchemas[kind],
    isSpecRequired: true,
    rules: [],
    status,
  }
}

/** The definition of one kind for the API server. */
export function toCrd(kind: Kind): object {
  const { description, spec, status, isSpecRequired, rules, plural, shortName } = kind
  const root = object(
    { spec: isSpecRequired ? spec : optional(spec), status: optional(status) },
    { description },
  )
  const { properties, ...rest } = toOpenApi(root, rules) as { properties: object }
  const envelope = {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
  }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.tollgate.dev` },
    spec: {
      group: 'tollgate.dev',
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural,
        singular: kind.kind.toLowerCase(),
        shortNames: [shortName],
        categories: ['tollgate'],
      },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: kind.columns,
          schema: { openAPIV3Schema: { ...rest, properties: { ...envelope, ...properties } } },
        },
      ],
    },
  }
}

/** Converts a schema for the API server: our own keywords become CEL rules or are left out. */
function toOpenApi(schema: Schema, ofKind: Kind['rules'] = []): object {
  const { form, hint, item, otherwise, missing, others, closed, mild, cut, maxBytes, ...ofServer } =
    schema
  const { refuses = [], rules = [], unique, orText, ...plain } = ofServer
  if (orText !== undefined) return toIntOrString(schema, orText)
  const { properties, additionalProperties, items } = schema
  const validations = [
    ...[...ofKind, ...rules].flatMap(({ cel, message }) =>
      cel === undefined ? [] : { rule: cel, message },
    ),
    ...refuses.map(({ pattern, ignoreCase, message }) => ({
      rule: `!self${ignoreCase ? '.lowerAscii()' : ''}.matches(${celText(pattern)})`,
      message,
    })),
  ]
  return {
    ...plain,
    // So its items are merged by this field when two managers apply them.
    ...(unique && { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [unique] }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, inside]) => [name, toOpenApi(inside)]),
      ),
    }),
    ...(additionalProperties && { additionalProperties: toOpenApi(additionalProperties) }),
    ...(items && { items: toOpenApi(items) }),
    ...(validations.length > 0 && { 'x-kubernetes-validations': validations }),
  }
}

/** The keywords for integers do not concern texts, and the other way around. */
function toIntOrString(schema: Schema, orText: Schema): object {
  const { description, minimum, maximum } = schema
  const { maxLength, pattern } = orText
  return {
    description,
    anyOf: [{ type: 'integer' }, { type: 'string' }],
    'x-kubernetes-int-or-string': true,
    ...{ minimum, maximum, maxLength, pattern },
  }
}

function celText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** The files of k8s/crds by name. */
export function renderCrds(): ReadonlyMap<string, string> {
  const note = '# Written by `npm run crds` from src/kinds/resource-schemas.ts.\n'
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: kinds.map(({ plural }) => `${plural}.yaml`),
  }
  const write = (document: object): string =>
    note + stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })
  return new Map([
    ...kinds.map((kind) => [`${kind.plural}.yaml`, write(toCrd(kind))] as const),
    ['kustomization.yaml', write(kustomization)],
  ])
}

if (import.meta.main) {
  const folder = new URL('./crds/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of renderCrds()) writeFileSync(new URL(name, folder), text)
  writeFileSync(new URL('../docs/resources.md', import.meta.url), renderResources())
}
