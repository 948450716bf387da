import { randomUUID } from 'node:crypto'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { Test } from 'tap'
import type { ClusterAccess } from '../../../src/kubernetes/client.ts'
import { listenLocally } from '../listening.ts'

/** One kind of resource of an API server. */
export interface ApiKind {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

/**
 * An API server in this process, with the features that our code uses: lists in pages, watches with
 * bookmarks, resource versions, generations, conflicts, the status subresource, merge patches and
 * finalizers. It can be switched to fail as real ones do.
 */
export interface ApiServer {
  readonly access: ClusterAccess
  /** When the switches refused each path, in milliseconds. */
  readonly refusedAt: Map<string, number[]>
  /** Method and path of each request, in order, except an administrator's, which never fail. */
  readonly requests: string[]
  /** Responds to every request with this status, or normally if it is 0. */
  status: number
  /** The status for a request, or 0 to respond normally. */
  refuses: ((method: string, url: string) => number) | undefined
  /** Sent as `retry-after`. */
  retryAfterSeconds: number
  /** Accepts connections and never answers. */
  silent: boolean
  /** Breaks off every watch after sending `last`. */
  cut(last?: string): void
  /** Ends every watch as API servers do after some minutes. */
  endWatches(): void
  /** Sends every watch a bookmark. */
  bookmark(): void
  /** Forgets the history, so that older versions are answered with 410. */
  compact(): void
  /** Goes back by so many versions, as after the restore of a backup, and keeps the objects. */
  goBack(versions: number): void
  /** Removes a kind and all its objects; `restore` adds the kind again. */
  forget(plural: string): void
  restore(plural: string): void
  readonly watches: number
}

/** The token of an administrator, whose requests are not under test. */
export const adminToken = 'admin'

interface Stored {
  readonly kind: ApiKind
  object: KubeObject
  /** The fields of its status that were last applied. */
  applied?: readonly string[]
}

interface KubeObject {
  metadata: { name: string; namespace?: string; [field: string]: unknown }
  spec?: unknown
  status?: unknown
}

interface Event {
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly kind: ApiKind
  readonly object: KubeObject
}

interface Watch {
  readonly asked: Asked
  /** Real ones accept a version in the future, and are silent until it is reached. */
  readonly from: number
  readonly response: ServerResponse
}

interface Asked {
  readonly kind: ApiKind
  readonly namespace: string | undefined
  readonly name: string | undefined
  readonly isStatus: boolean
  readonly query: URLSearchParams
}

/** Starts a server; it ends with `t`. */
export async function startApiServer(t: Test, kinds: readonly ApiKind[]): Promise<ApiServer> {
  const stored = new Map<string, Stored>()
  const absent = new Set<string>()
  const watches = new Set<Watch>()
  let history: Event[] = []
  let version = 1
  let oldest = 0

  function note(type: Event['type'], kind: ApiKind, object: KubeObject): void {
    const event = { version, type, kind, object: structuredClone(object) }
    history.push(event)
    for (const watch of watches) if (version > watch.from) send(watch, event)
  }

  function send({ asked, response }: Watch, { type, kind, object }: Event): void {
    if (kind !== asked.kind || !isMeant(asked, object)) return
    response.write(`${JSON.stringify({ type, object })}\n`)
  }

  function bookmarkOf({ asked: { kind } }: Watch): string {
    const object = { ...typeOf(kind), metadata: { resourceVersion: `${version}` } }
    return `${JSON.stringify({ type: 'BOOKMARK', object })}\n`
  }

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    const body = await readBody(request)
    const isAdmin = request.headers.authorization === `Bearer ${adminToken}`
    if (!isAdmin) world.requests.push(`${request.method} ${request.url}`)
    if (world.silent && !isAdmin) return
    const status = world.refuses?.(request.method ?? '', request.url ?? '') || world.status
    if (status !== 0 && !isAdmin) {
      const [path = ''] = (request.url ?? '').split('?')
      world.refusedAt.set(path, [...(world.refusedAt.get(path) ?? []), performance.now()])
      if (world.retryAfterSeconds > 0) response.setHeader('retry-after', world.retryAfterSeconds)
      return refuse(response, status, 'as the test demands')
    }
    const served = discover(request.url ?? '')
    if (served.length > 0) return reply(response, 200, { resources: served })
    if (request.url === '/apis') return reply(response, 200, { groups: [] })
    const asked = parse(request.url ?? '', kinds)
    if (asked === undefined || absent.has(asked.kind.plural)) {
      return refuse(response, 404, 'the server could not find the requested resource')
    }
    if (asked.query.get('watch') === '1') return watch(asked, response)
    if (asked.name === undefined && request.method === 'GET') return list(asked, response)
    if (asked.name === undefined) return create(asked, body, response)
    if (request.method === 'GET') return get(asked, response)
    if (request.method === 'DELETE') return remove(asked, response)
    return replace(asked, body, request, response)
  }

  /** The kinds of a group and version. */
  function discover(url: string): readonly { readonly name: string }[] {
    return kinds
      .filter(({ group, version, plural }) => {
        return url === `/apis/${group}/${version}` && !absent.has(plural)
      })
      .map(({ plural }) => ({ name: plural }))
  }

  function watch(asked: Asked, response: ServerResponse): unknown {
    const from = Number(asked.query.get('resourceVersion') ?? 0)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
    if (from < oldest) {
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' }
      return response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
    }
    const one = { asked, from, response }
    for (const event of history) if (event.version > from) send(one, event)
    watches.add(one)
    return response.on('close', () => watches.delete(one))
  }

  function list(asked: Asked, response: ServerResponse): unknown {
    const { kind, query } = asked
    const [, from = '0', at = `${version}`] =
      /^(\d+)@(\d+)$/.exec(query.get('continue') ?? '') ?? []
    if (Number(at) < oldest) return refuse(response, 410, 'the continue token is too old')
    const limit = Number(query.get('limit') ?? 0) || stored.size + 1
    const found = [...stored.values()]
      .filter((each) => each.kind === kind && isMeant(asked, each.object))
      .map(({ object }) => object)
      .sort((a, b) => (keyOf(kind, a) < keyOf(kind, b) ? -1 : 1))
    const end = Number(from) + limit
    const next = end < found.length ? `${end}@${at}` : ''
    const metadata = { resourceVersion: at, continue: next }
    const items = found.slice(Number(from), end)
    return reply(response, 200, { ...typeOf(kind), kind: `${kind.kind}List`, metadata, items })
  }

  function create(asked: Asked, body: KubeObject, response: ServerResponse): unknown {
    const { kind, namespace } = asked
    const object: KubeObject = {
      ...body,
      metadata: { ...body.metadata, ...(namespace && { namespace }) },
    }
    const key = keyOf(kind, object)
    if (stored.has(key)) return refuse(response, 409, `${key} already exists`)
    version += 1
    object.status = undefined
    object.metadata = {
      ...object.metadata,
      uid: randomUUID(),
      generation: 1,
      creationTimestamp: '2026-01-01T00:00:00Z',
      resourceVersion: `${version}`,
    }
    stored.set(key, { kind, object })
    note('ADDED', kind, object)
    return reply(response, 201, object)
  }

  function get(asked: Asked, response: ServerResponse): unknown {
    const found = find(asked)
    if (found === undefined) return refuse(response, 404, 'not found')
    return reply(response, 200, found.object)
  }

  function find({ kind, namespace, name }: Asked): Stored | undefined {
    return stored.get(
      keyOf(kind, { metadata: { name: name ?? '', ...(namespace && { namespace }) } }),
    )
  }

  function remove(asked: Asked, response: ServerResponse): unknown {
    const found = find(asked)
    if (found === undefined) return refuse(response, 404, 'not found')
    const { kind, object } = found
    if (finalizersOf(object).length === 0) drop(found)
    else if (object.metadata.deletionTimestamp === undefined) {
      version += 1
      found.object = {
        ...object,
        metadata: {
          ...object.metadata,
          deletionTimestamp: '2026-01-01T00:00:00Z',
          deletionGracePeriodSeconds: 0,
          generation: Number(object.metadata.generation) + 1,
          resourceVersion: `${version}`,
        },
      }
      note('MODIFIED', kind, found.object)
    }
    return reply(response, 200, found.object)
  }

  function drop({ kind, object }: Stored): void {
    version += 1
    stored.delete(keyOf(kind, object))
    object.metadata = { ...object.metadata, resourceVersion: `${version}` }
    note('DELETED', kind, object)
  }

  /** PUT, and PATCH as a merge; a patch of type apply creates a missing object. */
  function replace(
    asked: Asked,
    body: KubeObject,
    { method, headers }: IncomingMessage,
    response: ServerResponse,
  ): unknown {
    const found = find(asked)
    if (found === undefined) {
      const isApply = headers['content-type']?.startsWith(applyType)
      return isApply ? create(asked, body, response) : refuse(response, 404, 'not found')
    }
    const { kind, object } = found
    // Fields that were applied and are not applied again are removed.
    const isApplied = asked.isStatus && headers['content-type']?.startsWith(applyType) === true
    const gone = isApplied ? (found.applied ?? []) : []
    if (isApplied) found.applied = Object.keys(body.status ?? {})
    const before = without(object, gone)
    const expected = body.metadata?.resourceVersion
    if (expected !== undefined && expected !== object.metadata.resourceVersion) {
      return refuse(response, 409, 'the object has been modified')
    }
    const merged = method === 'PATCH' ? (merge(before, body) as KubeObject) : body
    const fresh: KubeObject = asked.isStatus
      ? { ...object, status: merged.status }
      : { ...merged, status: object.status, metadata: { ...merged.metadata } }
    const { uid, creationTimestamp, generation, resourceVersion, ...rest } = object.metadata
    const { deletionTimestamp, deletionGracePeriodSeconds } = rest
    const isSame = JSON.stringify(fresh.spec) === JSON.stringify(object.spec)
    const own = {
      uid,
      creationTimestamp,
      resourceVersion,
      generation: Number(generation) + (isSame ? 0 : 1),
      ...(deletionTimestamp !== undefined && { deletionTimestamp, deletionGracePeriodSeconds }),
    }
    fresh.metadata = asked.isStatus ? { ...object.metadata } : { ...fresh.metadata, ...own }
    if (deletionTimestamp !== undefined) {
      const known = finalizersOf(object)
      const added = finalizersOf(fresh).filter((each) => !known.includes(each))
      if (added.length > 0)
        return refuse(response, 422, `${added} on an object that is being deleted`)
    }
    if (JSON.stringify(sorted(fresh)) === JSON.stringify(sorted(object))) {
      return reply(response, 200, object)
    }
    version += 1
    fresh.metadata.resourceVersion = `${version}`
    found.object = fresh
    if (deletionTimestamp !== undefined && finalizersOf(fresh).length === 0) drop(found)
    else note('MODIFIED', kind, fresh)
    return reply(response, 200, fresh)
  }

  const server = http.createServer((request, response) => {
    answer(request, response).catch((error: unknown) => refuse(response, 500, String(error)))
  })
  const port = await listenLocally(t, server)
  const world: ApiServer = {
    access: { server: `http://127.0.0.1:${port}` },
    requests: [],
    refusedAt: new Map(),
    status: 0,
    refuses: undefined,
    retryAfterSeconds: 0,
    silent: false,
    cut(last) {
      for (const { response } of watches) {
        if (last === undefined) response.destroy()
        else response.write(last, () => response.destroy())
      }
    },
    endWatches() {
      for (const { response } of watches) response.end()
    },
    bookmark() {
      for (const watch of watches) watch.response.write(bookmarkOf(watch))
    },
    compact() {
      history = []
      version += 1
      oldest = version
    },
    goBack(versions) {
      history = []
      version -= versions
    },
    forget(plural) {
      for (const each of [...stored.values()]) if (each.kind.plural === plural) drop(each)
      absent.add(plural)
      for (const { asked, response } of watches) if (asked.kind.plural === plural) response.end()
    },
    restore: (plural) => void absent.delete(plural),
    get watches() {
      return watches.size
    },
  }
  return world
}

function finalizersOf({ metadata }: KubeObject): readonly unknown[] {
  return Array.isArray(metadata.finalizers) ? metadata.finalizers : []
}

const applyType = 'application/apply-patch'

function without(object: KubeObject, fields: readonly string[]): KubeObject {
  const status = Object.entries(object.status ?? {}).filter(([name]) => !fields.includes(name))
  return fields.length === 0 ? object : { ...object, status: Object.fromEntries(status) }
}

function typeOf({ group, version, kind }: ApiKind): { apiVersion: string; kind: string } {
  return { apiVersion: group === '' ? version : `${group}/${version}`, kind }
}

function keyOf({ group, plural }: ApiKind, { metadata }: KubeObject): string {
  return `${group}/${plural}/${metadata.namespace ?? ''}/${metadata.name}`
}

function isMeant({ namespace, query }: Asked, { metadata }: KubeObject): boolean {
  const selector = query.get('fieldSelector')
  if (selector !== null && selector !== `metadata.name=${metadata.name}`) return false
  const labels = (metadata.labels ?? {}) as Readonly<Record<string, string>>
  for (const wanted of query.get('labelSelector')?.split(',') ?? []) {
    const [label = '', value] = wanted.split('=')
    if (labels[label] !== value) return false
  }
  return namespace === undefined || metadata.namespace === namespace
}

function parse(path: string, kinds: readonly ApiKind[]): Asked | undefined {
  const url = new URL(path, 'http://localhost')
  const [, group = '', version, namespace, plural, name, status] =
    /^\/(?:apis\/([^/]+)|api)\/([^/]+)(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?(\/status)?$/.exec(
      url.pathname,
    ) ?? []
  const kind = kinds.find(
    (each) => each.group === group && each.version === version && each.plural === plural,
  )
  return kind && { kind, namespace, name, isStatus: status !== undefined, query: url.searchParams }
}

function merge(before: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const merged: Record<string, unknown> = { ...(before as object) }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = merge(merged[name], value)
  }
  return merged
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(fields.map(([name, inside]) => [name, sorted(inside)]))
}

async function readBody(request: IncomingMessage): Promise<KubeObject> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return chunks.length === 0
    ? { metadata: { name: '' } }
    : JSON.parse(String(Buffer.concat(chunks)))
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

function refuse(response: ServerResponse, code: number, message: string): void {
  reply(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, message })
}
