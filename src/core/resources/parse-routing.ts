/** Reads the fields of HTTPRoutes, Gateways and LLMInferenceServices that find-backend.ts needs. */

import { type Field, isObject } from '../formats/fields.ts'
import type { Metadata } from '../kinds/metadata.ts'

import type {
  Gateway,
  HttpRoute,
  InferenceService,
  Listener,
  RouteBackend,
  RouteParent,
  RouteRule,
} from '../kinds/routing.ts'

const gatewayGroup = 'gateway.networking.k8s.io'

/** The labels of HTTPRoutes that KServe creates for its inference services, besides their names. */
export const routerLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/component': 'llminferenceservice-router',
  'app.kubernetes.io/part-of': 'llminferenceservice',
}

/** Whether an HTTPRoute belongs to an inference service. All others are ignored. */
export function isModelRoute(document: unknown): boolean {
  const metadata = isObject(document) && isObject(document.metadata) ? document.metadata : {}
  const labels = isObject(metadata.labels) ? metadata.labels : {}
  return Object.entries(routerLabels).every(([label, value]) => labels[label] === value)
}

export const routingReaders = {
  HTTPRoute: readHttpRoute,
  Gateway: readGateway,
  LLMInferenceService: readInferenceService,
} as const

function readMetadata(field: Field): Metadata {
  field.object()
  const deleted = field.at('deletionTimestamp')
  return {
    name: field.at('name').requiredString(),
    namespace: field.at('namespace').string() ?? 'default',
    annotations: {},
    createdAt: undefined,
    deleting: deleted.present,
  }
}

function readHttpRoute(root: Field): HttpRoute {
  const metadata = readMetadata(root.at('metadata'))
  const spec = root.inside('spec')
  const { namespace } = metadata
  const verdicts = root
    .inside('status')
    .at('parents')
    .list()
    .map((each) => ({ of: keyOf(readParentRef(each.at('parentRef'), namespace)), said: each }))
  return {
    kind: 'HTTPRoute',
    metadata,
    service: root.at('metadata').at('labels').strings()['app.kubernetes.io/name'] ?? '',
    hostnames: spec.at('hostnames').texts(),
    parents: spec
      .at('parentRefs')
      .list()
      .map((each) => readParentRef(each, namespace))
      .filter(({ isGateway }) => isGateway)
      .map((parent) => {
        const own = verdicts.filter(({ of }) => of === keyOf(parent)).map(({ said }) => said)
        const { gateway, section, port } = parent
        const refusal = refusalOf(own, 'Accepted')
        return { gateway, section, port, refusal, unresolved: refusalOf(own, 'ResolvedRefs') }
      }),
    rules: spec
      .at('rules')
      .list()
      .map((rule) => readRule(rule, namespace)),
  }
}

type ParentRef = Pick<RouteParent, 'gateway' | 'section' | 'port'> & { readonly isGateway: boolean }

function readParentRef(field: Field, namespace: string): ParentRef {
  field.object()
  const group = field.at('group').string() ?? gatewayGroup
  const kind = field.at('kind').string() ?? 'Gateway'
  return {
    isGateway: group === gatewayGroup && kind === 'Gateway',
    gateway: `${field.at('namespace').string() ?? namespace}/${field.at('name').requiredString()}`,
    section: field.at('sectionName').string(),
    port: field.at('port').integer(),
  }
}

function keyOf({ isGateway, gateway, section, port }: ParentRef): string {
  return `${isGateway} ${gateway} ${section ?? ''} ${port ?? ''}`
}

/** The objections of a parent's controllers, if none of them accepts. */
function refusalOf(verdicts: readonly Field[], type: string): string | undefined {
  const found = verdicts
    .flatMap((verdict) => verdict.at('conditions').list())
    .filter((condition) => condition.at('type').string() === type)
  const isStatus = (status: string) => (each: Field) => each.at('status').string() === status
  if (found.some(isStatus('True'))) return undefined
  const refusal = found.find(isStatus('False'))
  return refusal && (refusal.at('message').string() || 'no reason given')
}

function readRule(rule: Field, namespace: string): RouteRule {
  rule.object()
  const matches = rule.at('matches').list().map(readMatch)
  const refs = rule.at('backendRefs').list()
  const isEach = rule.at('filters').list().length > 0
  return {
    prefixes: matches.length === 0 ? [''] : matches.flatMap(({ prefix }) => prefix ?? []),
    isPlain: matches.length < 2 && matches.every(({ isPlain }) => isPlain),
    isFiltered: isEach || refs.some((ref) => ref.at('filters').list().length > 0),
    backends: refs
      .filter((ref) => ref.at('weight').integer() !== 0)
      .map((ref) => readBackend(ref, namespace)),
  }
}

/** `prefix` is undefined if no path of ours is known to match. */
function readMatch(match: Field): {
  readonly prefix: string | undefined
  readonly isPlain: boolean
} {
  match.object()
  const path = match.inside('path')
  const type = path.at('type').string() ?? 'PathPrefix'
  const value = type === 'RegularExpression' ? '' : (path.at('value').string() ?? '/')
  const before = /^(.*?)\/v1(?:\/|$)/.exec(value)?.[1]
  const isPrefix = type === 'PathPrefix'
  const isFree = ['headers', 'queryParams'].every((name) => match.at(name).list().length === 0)
  return {
    prefix:
      type === 'RegularExpression' ? undefined : (before ?? (isPrefix ? trim(value) : undefined)),
    // Every path that we send continues with /v1 after the prefix.
    isPlain: isPrefix && isFree && !match.at('method').present && isWhole(value, before),
  }
}

function isWhole(path: string, before: string | undefined): boolean {
  return before === undefined || trim(path) === `${before}/v1`
}

function trim(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

function readBackend(ref: Field, own: string): RouteBackend {
  const kind = ref.at('kind').string() ?? 'Service'
  const isService = kind === 'Service' && (ref.at('group').string() ?? '') === ''
  const namespace = ref.at('namespace').string() ?? own
  const name = ref.at('name').requiredString()
  const port = ref.at('port').integer()
  return { shown: `${kind} ${namespace}/${name}`, isService, namespace, name, port }
}

function readGateway(root: Field): Gateway {
  return {
    kind: 'Gateway',
    metadata: readMetadata(root.at('metadata')),
    listeners: root
      .inside('spec')
      .at('listeners')
      .list()
      .flatMap((listener): Listener | [] => {
        const protocol = listener.at('protocol').string()
        if (protocol !== 'HTTP' && protocol !== 'HTTPS') return []
        return {
          name: listener.at('name').requiredString(),
          hostname: listener.at('hostname').string(),
          port: listener.at('port').requiredInteger(),
          isSecure: protocol === 'HTTPS',
        }
      }),
    addresses: root
      .inside('status')
      .at('addresses')
      .list()
      .map((address) => address.at('value').string() ?? ''),
  }
}

function readInferenceService(root: Field): InferenceService {
  const status = root.inside('status')
  return {
    kind: 'LLMInferenceService',
    metadata: readMetadata(root.at('metadata')),
    addresses: status
      .at('addresses')
      .list()
      .map((each) => ({
        name: each.at('name').string() ?? '',
        url: each.at('url').string() ?? '',
      })),
    url: status.at('url').string(),
  }
}
