/**
 * Schemas of the foreign kinds that locate a model: HTTPRoute and Gateway of the Gateway API, and
 * KServe's LLMInferenceService. Their own definitions are stricter; these are stricter only where a
 * value could not become an address.
 */

import {
  dnsLabel,
  dnsName,
  integer,
  labels,
  list,
  object,
  type Schema,
  text,
} from '../formats/schema.ts'

const name = text({ minLength: 1, maxLength: 253, pattern: dnsName, form: 'a DNS name' })
const namespace = text({ minLength: 1, maxLength: 63, pattern: dnsLabel, form: 'a DNS label' })
const port = integer(1, 65_535)

const hostname = text({
  minLength: 1,
  maxLength: 253,
  pattern: `^(\\*\\.)?${dnsName.slice(1)}`,
  form: 'a host name, with *. before it or without',
})

const parentRef = object(
  { group: text(), kind: text(), namespace, name, sectionName: text(), port },
  ['name'],
)

const conditions = list(object({ type: text(), status: text(), message: text() }))

/** For lists of which only the length matters. */
const some = list(object({}))

const match = object({
  path: object({
    type: text(),
    // Read if the type is not RegularExpression.
    value: text({
      maxLength: 1_024,
      pattern: "^/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$",
      form: 'a path',
      refuses: [{ pattern: '//|/\\.{1,2}(/|$)', message: 'must have no //, /. or /..' }],
    }),
  }),
  headers: some,
  queryParams: some,
  method: text(),
})

const backendRef = object(
  {
    group: text(),
    kind: text(),
    namespace,
    name,
    port,
    weight: integer(0, 1_000_000),
    filters: some,
  },
  ['name'],
)

const httpRoute = {
  spec: object({
    parentRefs: list(parentRef),
    hostnames: list(hostname),
    rules: list(object({ matches: list(match), filters: some, backendRefs: list(backendRef) })),
  }),
  status: object({ parents: list(object({ parentRef, conditions })) }),
}

const gateway = {
  spec: object({
    listeners: list(object({ name: text(), hostname, port, protocol: text() })),
  }),
  status: object({ addresses: list(object({ type: text(), value: text({ maxLength: 253 }) })) }),
}

const inferenceService = {
  status: object({
    url: text({ maxLength: 2_048 }),
    addresses: list(object({ name: text(), url: text({ maxLength: 2_048 }) })),
  }),
}

function document(
  fields: Readonly<Record<string, Schema>>,
  more: Readonly<Record<string, Schema>>,
) {
  const metadata = object({ name, namespace, deletionTimestamp: text(), ...more }, ['name'])
  return object({ apiVersion: text(), kind: text(), metadata, ...fields }, ['metadata'])
}

/** Whole documents, by the kind that they are read as. */
export const routingDocuments = {
  HTTPRoute: document(httpRoute, { labels: labels() }),
  Gateway: document(gateway, {}),
  LLMInferenceService: document(inferenceService, {}),
} as const
