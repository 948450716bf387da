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
  optional,
  partial,
  text,
  withDefault,
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
  group: withDefault(text(), gatewayGroup),
  kind: withDefault(text(), 'Gateway'),
  namespace: optional(namespace),
  name,
  sectionName: optional(text()),
  port: optional(port),
})

const message = text({ maxLength: 32_768 })
const conditions = list(object(partial({ type: text(), status: text(), message })))

/** For lists of which only the length matters. */
const some = list({ type: 'object' })

const match = object({
  path: withDefault(
    object({
      type: withDefault(text(), 'PathPrefix'),
      value: withDefault(
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
  method: optional(text()),
})

const backendRef = object({
  group: withDefault(text(), ''),
  kind: withDefault(text(), 'Service'),
  namespace: optional(namespace),
  name,
  port: optional(port),
  weight: optional(integer(0, 1_000_000)),
  filters: some,
})

const rule = object({ matches: list(match), filters: some, backendRefs: list(backendRef) })
const listener = object({
  name: text(),
  hostname: optional(hostname),
  port,
  protocol: optional(text()),
})
const url = text({ maxLength: 2_048 })

const head = { apiVersion: optional(text()), kind: optional(text()) }
const ofObject = {
  name,
  namespace: withDefault(namespace, 'default'),
  deletionTimestamp: optional(text()),
}

/** Whole documents, by the kind that they are read as. */
export const routingDocumentSchemas = {
  HTTPRoute: object({
    ...head,
    metadata: object({ ...ofObject, labels: labels() }),
    spec: withDefault(
      object({ parentRefs: list(parentRef), hostnames: list(hostname), rules: list(rule) }),
      {},
    ),
    status: withDefault(object({ parents: list(object({ parentRef, conditions })) }), {}),
  }),
  Gateway: object({
    ...head,
    metadata: object(ofObject),
    spec: withDefault(object({ listeners: list(listener) }), {}),
    status: withDefault(
      object({
        addresses: list(
          object({ type: optional(text()), value: withDefault(text({ maxLength: 253 }), '') }),
        ),
      }),
      {},
    ),
  }),
  LLMInferenceService: object({
    ...head,
    metadata: object(ofObject),
    status: withDefault(
      object({
        url: optional(url),
        addresses: list(object({ name: withDefault(text(), ''), url: withDefault(url, '') })),
      }),
      {},
    ),
  }),
} as const
