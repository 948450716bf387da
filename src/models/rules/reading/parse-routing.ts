/** HTTPRoutes, Gateways and LLMInferenceServices as documents → what find-backend.ts needs. */

import { valueAt } from '../../../formats/fields.ts'
import type { ValueOf } from '../../../formats/schema.ts'
import type { Metadata } from '../../../kinds/metadata.ts'
import type {
  Gateway,
  HttpRoute,
  InferenceService,
  RouteParent,
  RouteRule,
} from '../../../kinds/routing.ts'
import { gatewayGroup, type routingDocumentSchemas } from '../../../kinds/routing-schemas.ts'

type Raw<Kind extends keyof typeof routingDocumentSchemas> = ValueOf<
  (typeof routingDocumentSchemas)[Kind]
>
type WrittenRoute = Raw<'HTTPRoute'>
type WrittenRule = WrittenRoute['spec']['rules'][number]
type Verdict = WrittenRoute['status']['parents'][number]

/** The labels of HTTPRoutes that KServe creates for its inference services, besides their names. */
export const routerLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/component': 'llminferenceservice-router',
  'app.kubernetes.io/part-of': 'llminferenceservice',
}

/** Whether an HTTPRoute belongs to an inference service. All others are ignored. */
export function isModelRoute(document: unknown): boolean {
  return Object.entries(routerLabels).every(
    ([label, value]) => valueAt(document, ['metadata', 'labels', label]) === value,
  )
}

function toMetadata({ name, namespace, deletionTimestamp }: Raw<'Gateway'>['metadata']): Metadata {
  const deleting = deletionTimestamp !== undefined
  return { name, namespace, annotations: {}, createdAt: undefined, deleting }
}

export function toHttpRoute({ metadata, spec, status }: WrittenRoute): HttpRoute {
  const { namespace } = metadata
  const verdicts = status.parents.map((said) => ({
    of: keyOf(toParent(said.parentRef, namespace)),
    said,
  }))
  return {
    kind: 'HTTPRoute',
    metadata: toMetadata(metadata),
    service: metadata.labels['app.kubernetes.io/name'] ?? '',
    hostnames: spec.hostnames,
    parents: spec.parentRefs
      .map((each) => toParent(each, namespace))
      .filter(({ isGateway }) => isGateway)
      .map((parent) => {
        const own = verdicts.filter(({ of }) => of === keyOf(parent)).map(({ said }) => said)
        const { gateway, section, port } = parent
        const refusal = refusalOf(own, 'Accepted')
        return { gateway, section, port, refusal, unresolved: refusalOf(own, 'ResolvedRefs') }
      }),
    rules: spec.rules.map((rule) => toRule(rule, namespace)),
  }
}

type Parent = Pick<RouteParent, 'gateway' | 'section' | 'port'> & { readonly isGateway: boolean }

function toParent(ref: Verdict['parentRef'], own: string): Parent {
  return {
    isGateway: ref.group === gatewayGroup && ref.kind === 'Gateway',
    gateway: `${ref.namespace ?? own}/${ref.name}`,
    section: ref.sectionName,
    port: ref.port,
  }
}

function keyOf({ isGateway, gateway, section, port }: Parent): string {
  return `${isGateway} ${gateway} ${section ?? ''} ${port ?? ''}`
}

/** Why a parent's controllers refuse, if none of them accepts. */
function refusalOf(verdicts: readonly Verdict[], type: string): string | undefined {
  const found = verdicts
    .flatMap(({ conditions }) => conditions)
    .filter((each) => each.type === type)
  if (found.some(({ status }) => status === 'True')) return undefined
  const refusal = found.find(({ status }) => status === 'False')
  return refusal && (refusal.message || 'no reason given')
}

function toRule({ matches, filters, backendRefs }: WrittenRule, own: string): RouteRule {
  const read = matches.map(readMatch)
  return {
    prefixes: read.length === 0 ? [''] : read.flatMap(({ prefix }) => prefix ?? []),
    isPlain: read.length < 2 && read.every(({ isPlain }) => isPlain),
    isFiltered: filters.length > 0 || backendRefs.some((ref) => ref.filters.length > 0),
    backends: backendRefs
      .filter(({ weight }) => weight !== 0)
      .map(({ group, kind, namespace = own, name, port }) => ({
        shown: `${kind} ${namespace}/${name}`,
        isService: kind === 'Service' && group === '',
        namespace,
        name,
        port,
      })),
  }
}

/** `prefix` is undefined if no path of ours is known to match. */
function readMatch({ path, method, headers, queryParams }: WrittenRule['matches'][number]): {
  readonly prefix: string | undefined
  readonly isPlain: boolean
} {
  const { type, value = '' } = path
  const before = /^(.*?)\/v1(?:\/|$)/.exec(value)?.[1]
  const isPrefix = type === 'PathPrefix'
  const isFree = headers.length + queryParams.length === 0 && method === undefined
  return {
    prefix:
      type === 'RegularExpression' ? undefined : (before ?? (isPrefix ? trim(value) : undefined)),
    // Every path that we send continues with /v1 after the prefix.
    isPlain: isPrefix && isFree && isWhole(value, before),
  }
}

function isWhole(path: string, before: string | undefined): boolean {
  return before === undefined || trim(path) === `${before}/v1`
}

function trim(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

export function toGateway({ metadata, spec, status }: Raw<'Gateway'>): Gateway {
  return {
    kind: 'Gateway',
    metadata: toMetadata(metadata),
    listeners: spec.listeners
      .filter(({ protocol }) => protocol === 'HTTP' || protocol === 'HTTPS')
      .map(({ name, hostname, port, protocol }) => {
        return { name, hostname, port, isSecure: protocol === 'HTTPS' }
      }),
    addresses: status.addresses.map(({ value }) => value),
  }
}

export function toInferenceService({
  metadata,
  status,
}: Raw<'LLMInferenceService'>): InferenceService {
  const { addresses, url } = status
  return { kind: 'LLMInferenceService', metadata: toMetadata(metadata), addresses, url }
}
