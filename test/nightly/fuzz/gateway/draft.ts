/** A request whose parts can still be changed before it is sent. */

export interface Draft {
  method: string
  target: string
  version: string
  /** Whole lines; `{{key}}` becomes the credential, `{{length}}` the length of the body. */
  headers: string[]
  body: Buffer
  /** Bytes that follow on the same connection. */
  tail: Buffer
  /** Final changes of all bytes before the tail. */
  garble: ((bytes: Buffer) => Buffer)[]
  transport: Transport
}

/** In one write, in small ones, or as HTTP/2 (which uses only method, target, headers and body). */
export type Transport = 'whole' | 'pieces' | 'http2'

/** Parses the text of a request; the bytes of the body stay unchanged. */
export function parseDraft(bytes: Buffer): Draft {
  const end = bytes.indexOf('\r\n\r\n')
  const head = bytes.subarray(0, end < 0 ? bytes.length : end).toString('latin1')
  const [first = '', ...headers] = head.split('\r\n')
  const [, method = '', target = '', version = ''] = /^(\S*) ?(.*?) ?(\S*)$/s.exec(first) ?? []
  return {
    method,
    target,
    version,
    headers,
    body: end < 0 ? Buffer.alloc(0) : Buffer.from(bytes.subarray(end + 4)),
    tail: Buffer.alloc(0),
    garble: [],
    transport: 'whole',
  }
}

/** The bytes of a request with this credential; undefined: without the header. */
export function render(draft: Draft, key: string | undefined): Buffer {
  const lines = linesOf(draft, key !== undefined)
  const head = [`${draft.method} ${draft.target} ${draft.version}`, ...lines, '', ''].join('\r\n')
  const whole = Buffer.concat([toBytes(head), draft.body])
  const garbled = draft.garble.reduce<Buffer>((bytes, change) => change(bytes), whole)
  // The credential is inserted last, because credentials differ in length: changes apply to the
  // same place.
  const text = Buffer.concat([garbled, draft.tail]).toString('latin1')
  return Buffer.from(text.replaceAll('{{key}}', key ?? 'none'), 'latin1')
}

/** The header lines with all placeholders replaced. */
export function headersOf(draft: Draft, key: string | undefined): string[] {
  return linesOf(draft, key !== undefined).map((line) => line.replaceAll('{{key}}', key ?? ''))
}

function linesOf(draft: Draft, hasKey: boolean): string[] {
  return draft.headers
    .filter((line) => hasKey || !line.includes('{{key}}'))
    .map((line) => line.replace('{{length}}', String(draft.body.length)))
}

/** Encodes as Latin-1, so that any byte can be written; other characters as UTF-8. */
function toBytes(head: string): Buffer {
  const bytes = head.replace(/[^\0-\xff]/gu, (letter) => Buffer.from(letter).toString('latin1'))
  return Buffer.from(bytes, 'latin1')
}

/** The name of a header line in lower case. */
export function nameOf(line: string): string {
  return line.slice(0, Math.max(0, line.indexOf(':'))).toLowerCase()
}

/** Replaces all lines of this name by these; without lines it removes them. */
export function setHeader(draft: Draft, name: string, ...lines: string[]): void {
  const rest = draft.headers.filter((line) => nameOf(line) !== name)
  draft.headers = [...rest, ...lines]
}
