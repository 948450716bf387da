/**
 * Schemas of the foreign kinds that locate a model: HTTPRoute and Gateway of the Gateway API, and
 * KServe's LLMInferenceService. Their own definitions are stricter; these are stricter only where a
 * value could not become an address.
 */

import {
  dnsLabel,
  dnsName,
  filled,
  integer,
  labels,
  list,
  object,
  required,
  text,
} from '../formats/schema.ts'

const name = text({ minLength: 1, maxLength: 253, pattern: dnsName, form: 'a DNS name' })
const namespace = text({ minLength: 1, maxLength: 63, pattern: dnsLabel, form: 'a DNS label' })
/** The group of Gateways. */
export const gatewayGroup = 'gateway.networking.k8s.io'
const port = integer(1, 65_535)

const hostname = text({
  minLength: 1,
  maxLength: 253,
  pattern: `^(\\*\\.)?${dnsName.slice(1)}`,
  form: 'a host name, with *. before it or without',
})

const parentRef = object({
  group: filled(text(), gatewayGroup),
  kind: filled(text(), 'Gateway'),
  namespace,
  name: required(name),
  sectionName: text(),
  port,
})

const message = text({ maxLength: 32_768 })
const conditions = list(object({ type: text(), status: text(), message }))

/** For lists of which only the length matters. */
const some = list({ type: 'object' })

const match = object({
  path: filled(
    object({
      type: filled(text(), 'PathPrefix'),
      value: filled(
        text({
          maxLength: 1_024,
          pattern: "^/[-A-Za-z0-9/._~!$&'()*+,;=:@%]*$",
          form: 'a path',
          refuses: [{ pattern: '//|/\\.{1,2}(/|$)', message: 'must have no //, /. or /..' }],
          unless: ({ type }) => type === 'RegularExpression',
        }),
        '/',
      ),
    }),
    {},
  ),
  headers: some,
  queryParams: some,
  method: text(),
})

const backendRef = object({
  group: filled(text(), ''),
  kind: filled(text(), 'Service'),
  namespace,
  name: required(name),
  port,
  weight: integer(0, 1_000_000),
  filters: some,
})

const rule = object({ matches: list(match), filters: some, backendRefs: list(backendRef) })
const listener = object({
  name: required(text()),
  hostname,
  port: required(port),
  protocol: text(),
})
const url = text({ maxLength: 2_048 })

const head = { apiVersion: text(), kind: text() }
const ofObject = {
  name: required(name),
  namespace: filled(namespace, 'default'),
  deletionTimestamp: text(),
}

/** Whole documents, by the kind that they are read as. */
export const routingDocuments = {
  HTTPRoute: object({
    ...head,
    metadata: required(object({ ...ofObject, labels: labels() })),
    spec: filled(
      object({ parentRefs: list(parentRef), hostnames: list(hostname), rules: list(rule) }),
      {},
    ),
    status: filled(
      object({ parents: list(object({ parentRef: required(parentRef), conditions })) }),
      {},
    ),
  }),
  Gateway: object({
    ...head,
    metadata: required(object(ofObject)),
    spec: filled(object({ listeners: list(listener) }), {}),
    status: filled(
      object({
        addresses: list(object({ type: text(), value: filled(text({ maxLength: 253 }), '') })),
      }),
      {},
    ),
  }),
  LLMInferenceService: object({
    ...head,
    metadata: required(object(ofObject)),
    status: filled(
      object({
        url,
        addresses: list(object({ name: filled(text(), ''), url: filled(url, '') })),
      }),
      {},
    ),
  }),
} as const
