/** `envoy.service.auth.v3.CheckRequest` → the few strings that a decision needs. */

import { clientOfForwardedFor, parseClientAddress } from '../formats/headers.ts'
import type { Mutable } from '../formats/mutable.ts'
import { WireError, WireReader } from '../grpc/wire.ts'
import { listingHeader } from '../identity/authenticate.ts'
import type { RequestSize } from '../ratelimit/rules/estimates/estimator.ts'

/**
 * The attributes of a request that Envoy sends. Missing headers are undefined; header names are
 * lower-case.
 */
export interface CheckRequest {
  /** Path and query as Envoy has normalized them (`AttributeContext.HttpRequest.path`). */
  readonly path: string
  /**
   * When the gateway received its first byte, by its clock, in milliseconds since the epoch; undefined if it
   * does not say.
   */
  readonly startedAt: number | undefined
  /** `GET`, `POST` and so on; empty if the gateway does not send it. */
  readonly method: string
  readonly authorization: string | undefined
  /** `x-api-key`. */
  readonly apiKey: string | undefined
  /** The client's own `x-maas-subscription`. */
  readonly subscription: string | undefined
  /**
   * The body's `model`, extracted by the gateway's script; Envoy removes a client's own header
   * with this name.
   */
  readonly model: string | undefined
  /** The body's problem, according to the gateway's script. */
  readonly bodyProblem: string | undefined
  /** Why the request is a miss, in the word of the gateway's script (`x-tollgate-miss`). */
  readonly miss: string | undefined
  /** Whether only the caller is checked, before the gateway reads a large body. */
  readonly authenticateOnly: boolean
  /** Whether the gateway has not read the body, and can ask again when it has. */
  readonly isUnread: boolean
  /**
   * Reads the client's address from the message, at each call; undefined if it has none, or if the
   * proxies in front have not named it.
   */
  readonly source: () => string | undefined
  /** Reads the header of the service's own lists of models (listing-seal.ts), at each call. */
  readonly listing: () => string | undefined
  /** The header `x-request-id`, which the gateway sets. */
  readonly requestId: string | undefined
  /** As the gateway's script has read it, else as the client declares it. */
  readonly size: RequestSize
}

type Draft = Mutable<CheckRequest>

/**
 * Reads the message; throws a WireError for invalid bytes. `trustedHops`: how many proxies in front of the gateway
 * append the client to `x-forwarded-for`.
 */
export function readCheckRequest(bytes: Buffer, trustedHops = 0): CheckRequest {
  const draft: Draft = {
    path: '',
    startedAt: undefined,
    method: '',
    authorization: undefined,
    apiKey: undefined,
    subscription: undefined,
    model: undefined,
    bodyProblem: undefined,
    miss: undefined,
    authenticateOnly: false,
    isUnread: false,
    source: () => readSource(bytes, trustedHops),
    listing: () => readLate(bytes, listingHeader),
    requestId: undefined,
    size: unknownSize,
  }
  const reader = new WireReader(bytes)
  while (reader.next()) {
    if (reader.field !== 1) continue
    const end = reader.enter()
    readAttributes(reader, draft)
    reader.leave(end)
  }
  return draft
}

const unknownSize: RequestSize = { bytes: undefined, maxOutput: undefined }

/** AttributeContext: request = 4, http = 2; context_extensions = 10, a map. */
function readAttributes(attributes: WireReader, draft: Draft): void {
  while (attributes.next()) {
    const { field } = attributes
    if (field !== 4 && field !== 10) continue
    const end = attributes.enter()
    if (field === 4) readRequest(attributes, draft)
    else readExtension(attributes, draft)
    attributes.leave(end)
  }
}

/** Request: time = 1, http = 2. */
function readRequest(request: WireReader, draft: Draft): void {
  while (request.next()) {
    if (request.field !== 1 && request.field !== 2) continue
    const end = request.enter()
    if (request.field === 1) draft.startedAt = readTime(request)
    else readHttp(request, draft)
    request.leave(end)
  }
}

/** Timestamp: seconds = 1, nanos = 2. */
function readTime(time: WireReader): number {
  let ms = 0
  while (time.next()) {
    if (time.field === 1) ms += time.unsigned() * 1_000
    else if (time.field === 2) ms += Math.floor(time.unsigned() / 1_000_000)
  }
  return ms
}

const stages = ['stage', 'unread', 'authenticate']

/** An entry of the route's context extensions, `stage: authenticate` or `unread` (envoy/bootstrap.yaml). */
function readExtension(entry: WireReader, draft: Draft): void {
  let key = ''
  let value = ''
  while (entry.next()) {
    if (entry.field === 1) key = entry.string(stages)
    else if (entry.field === 2) value = entry.string(stages)
  }
  if (key !== 'stage') return
  draft.authenticateOnly = value === 'authenticate'
  draft.isUnread = value === 'unread'
}

const defaultMethods = ['POST', 'GET']
/**
 * The most frequent first. Other gateways may send all headers of the client: only these names
 * become strings.
 */
const knownHeaders = [
  'authorization',
  'x-request-id',
  'x-tollgate-model',
  'x-api-key',
  'x-maas-subscription',
  'x-tollgate-refusal',
  'x-tollgate-miss',
  'content-length',
  'x-tollgate-size',
]

/** The reasons of most misses. */
const misses = ['unknown', 'stale']

/** A bit for each of their lengths. */
const knownHeaderLengths = knownHeaders.reduce((bits, { length }) => bits | (1 << length), 0)

/** HttpRequest: method = 2, headers = 3 (a map), path = 4. */
function readHttp(http: WireReader, draft: Draft): void {
  while (http.next()) {
    if (http.field === 2) draft.method = http.string(defaultMethods)
    else if (http.field === 4) draft.path = http.string()
    else if (http.field === 3 && !http.skipEntry(knownHeaderLengths)) {
      const end = http.enter()
      readHeader(http, draft)
      http.leave(end)
    }
  }
}

function readHeader(entry: WireReader, draft: Draft): void {
  let key: string | undefined
  while (entry.next()) {
    if (entry.field === 1) {
      key = entry.oneOf(knownHeaders)
    } else if (entry.field === 2) {
      if (key === 'authorization') draft.authorization = entry.string()
      else if (key === 'x-request-id') draft.requestId ??= entry.string()
      else if (key === 'x-api-key') draft.apiKey = entry.string()
      else if (key === 'x-maas-subscription') draft.subscription = entry.string()
      else if (key === 'x-tollgate-model') draft.model = entry.string()
      else if (key === 'x-tollgate-refusal') draft.bodyProblem = entry.string()
      else if (key === 'x-tollgate-miss') draft.miss = entry.string(misses)
      else if (key === 'content-length') draft.size = readLength(entry.digits(), draft.size)
      else if (key === 'x-tollgate-size') draft.size = readSize(entry.string(), draft.size)
    }
  }
}

/**
 * The path to the address: CheckRequest.attributes, AttributeContext.source, Peer.address,
 * Address.socket_address, SocketAddress.address.
 */
const sourcePath = [1, 1, 1, 1, 2]

/** The client's address in its normal form. */
function readSource(bytes: Buffer, trustedHops: number): string | undefined {
  if (trustedHops > 0) {
    const forwarded = readLate(bytes, 'x-forwarded-for')
    return forwarded && clientOfForwardedFor(forwarded, trustedHops)
  }
  const peer = readPeer(bytes)
  return peer && parseClientAddress(peer)
}

/** undefined for a client without an IP address, and for invalid bytes. */
function readPeer(bytes: Buffer): string | undefined {
  try {
    const reader = new WireReader(bytes)
    for (let depth = 0; reader.next(); ) {
      if (reader.field !== sourcePath[depth]) continue
      depth += 1
      if (depth === sourcePath.length) return reader.string()
      reader.enter()
    }
  } catch (error) {
    if (!(error instanceof WireError)) throw error
  }
  return undefined
}

/** The body's length, if the client declares it, unless the script has read more (`known`). */
function readLength(bytes: number | undefined, known: RequestSize): RequestSize {
  return known === unknownSize && bytes !== undefined ? { bytes, maxOutput: undefined } : known
}

/**
 * Parses what the gateway's script has read from the body, `<bytes>;<most tokens>;<answers>;<fewest tokens>;<problem>`.
 */
function readSize(raw: string, known: RequestSize): RequestSize {
  // The first header counts.
  if (known.leastOutput !== undefined) return known
  const found = /^(\d{1,15});(\d{0,15});(\d{1,7})(?:;(\d{1,15});(.*))?$/.exec(raw)
  if (found === null) return known
  const [, bytes, max, choices, least = '1', problem = ''] = found
  const maxOutput = max === '' ? undefined : Number(max)
  const numbers = { bytes: Number(bytes), maxOutput, choices: Number(choices) }
  return { ...numbers, leastOutput: Number(least), ...(problem !== '' && { problem }) }
}

/** Reads a rarely needed header, the first of this name, from a message that has been parsed before. */
function readLate(bytes: Buffer, name: string): string | undefined {
  try {
    return seekHeader(new WireReader(bytes), 0, name)
  } catch (error) {
    if (!(error instanceof WireError)) throw error
    return undefined
  }
}

/** CheckRequest.attributes, AttributeContext.request, http, headers. */
const headersPath = [1, 4, 2, 3]

function seekHeader(reader: WireReader, depth: number, name: string): string | undefined {
  const isEntry = depth === headersPath.length - 1
  while (reader.next()) {
    if (reader.field !== headersPath[depth]) continue
    if (isEntry && reader.skipEntry(1 << name.length)) continue
    const end = reader.enter()
    const found = isEntry ? readNamed(reader, name) : seekHeader(reader, depth + 1, name)
    if (found !== undefined) return found
    reader.leave(end)
  }
  return undefined
}

/** The value of an entry, if it has this name. */
function readNamed(entry: WireReader, name: string): string | undefined {
  let isNamed = false
  while (entry.next()) {
    if (entry.field === 1) isNamed = entry.oneOf([name]) === name
    else if (entry.field === 2 && isNamed) return entry.string()
  }
  return undefined
}
