/**
 * The header fields of a request: all are validated (RFC 9113, 8.2 and 8.3), but only the ones that calls need are
 * stored.
 */

/** The kind of a field, computed once for each table entry. */
const fieldKind = {
  /** Not used. */
  other: 0,
  /** Must not be sent at all (8.2.1, 8.2.2, 8.3). */
  malformed: 1,
  method: 2,
  scheme: 3,
  authority: 4,
  path: 5,
  contentLength: 6,
  contentType: 7,
  encoding: 8,
  timeout: 9,
  traceparent: 10,
  hop: 11,
} as const

/** A header field. */
export interface Field {
  readonly name: string
  readonly value: string
  /** One of `fieldKind`. */
  readonly kind: number
}

/** The size that a field adds beside its name and value (RFC 7541, 4.1; RFC 9113, 6.5.2). */
export const fieldOverhead = 32

const kinds: ReadonlyMap<string, number> = new Map([
  [':method', fieldKind.method],
  [':scheme', fieldKind.scheme],
  [':authority', fieldKind.authority],
  [':path', fieldKind.path],
  ['content-length', fieldKind.contentLength],
  ['content-type', fieldKind.contentType],
  ['grpc-encoding', fieldKind.encoding],
  ['grpc-timeout', fieldKind.timeout],
  ['traceparent', fieldKind.traceparent],
  ['x-tollgate-hop', fieldKind.hop],
  ['connection', fieldKind.malformed],
  ['keep-alive', fieldKind.malformed],
  ['proxy-connection', fieldKind.malformed],
  ['transfer-encoding', fieldKind.malformed],
  ['upgrade', fieldKind.malformed],
])

/** Visible ASCII without capital letters and the colon. */
const nameForm = /^[!-9;-@[-~]+$/
/** No NUL or line break, and no whitespace around it. */
const valueForm = /^(?![ \t])[^\0\r\n]*(?<![ \t])$/
const lengthForm = /^[0-9]{1,15}$/

export function toField(name: string, value: string): Field {
  return { name, value, kind: kindOf(name, value) }
}

function kindOf(name: string, value: string): number {
  if (!valueForm.test(value)) return fieldKind.malformed
  const kind = kinds.get(name)
  if (kind !== undefined) return kind
  if (name === 'te' && value !== 'trailers') return fieldKind.malformed
  return nameForm.test(name) ? fieldKind.other : fieldKind.malformed
}

/** The limits of one header list. */
export interface HeadLimits {
  readonly fields: number
  /** In the units of SETTINGS_MAX_HEADER_LIST_SIZE. */
  readonly bytes: number
}

/** Collects one header list: `add` for each field, then the getters. */
export class RequestHead {
  readonly #limits: HeadLimits
  #fields = 0
  #bytes = 0
  #malformed = false
  /** A regular field has been added: no pseudo-header field may follow (8.3). */
  #regular = false
  #pseudo = 0
  #scheme = ''
  #authority = ''

  method = ''
  path = ''
  /** -1 if absent. */
  contentLength = -1
  contentType: string | undefined
  /** `grpc-encoding` */
  encoding: string | undefined
  /** `grpc-timeout` */
  timeout: string | undefined
  traceparent: string | undefined
  /** `x-tollgate-hop` */
  hop: string | undefined

  constructor(limits: HeadLimits) {
    this.#limits = limits
  }

  add({ name, value, kind }: Field): void {
    this.#fields += 1
    this.#bytes += name.length + value.length + fieldOverhead
    if (kind >= fieldKind.method && kind <= fieldKind.path) {
      const bit = 1 << kind
      if (this.#regular || (this.#pseudo & bit) !== 0) this.#malformed = true
      this.#pseudo |= bit
    } else {
      this.#regular = true
    }
    switch (kind) {
      case fieldKind.other:
        break
      case fieldKind.malformed:
        this.#malformed = true
        break
      case fieldKind.method:
        this.method = value
        break
      case fieldKind.scheme:
        this.#scheme = value
        break
      case fieldKind.authority:
        this.#authority = value
        break
      case fieldKind.path:
        this.path = value
        break
      case fieldKind.contentLength:
        this.#addLength(value)
        break
      case fieldKind.contentType:
        this.contentType = value
        break
      case fieldKind.encoding:
        this.encoding = value
        break
      case fieldKind.timeout:
        this.timeout = value
        break
      case fieldKind.traceparent:
        this.traceparent = value
        break
      case fieldKind.hop:
        this.hop = value
        break
    }
  }

  /** The list is longer than our announced limit. */
  get tooLong(): boolean {
    return this.#bytes > this.#limits.bytes || this.#fields > this.#limits.fields
  }

  /** Whether the list may begin a request (8.3.1). */
  get isRequest(): boolean {
    if (this.#malformed || this.method === '') return false
    if (this.method === 'CONNECT') {
      return this.#authority !== '' && this.#scheme === '' && this.path === ''
    }
    return this.#scheme !== '' && this.path !== ''
  }

  /** Whether the list may be trailers (8.1). */
  get isTrailers(): boolean {
    return !this.#malformed && this.#pseudo === 0
  }

  #addLength(value: string): void {
    const length = lengthForm.test(value) ? Number(value) : -1
    const said = this.contentLength
    if (length < 0 || (said >= 0 && said !== length)) this.#malformed = true
    this.contentLength = length
  }
}
