/**
 * What a request is aimed at, read from its path alone. Two shapes lead to a model:
 * `/<namespace>/<model>/v1/…` names it, `/v1/…` leaves it to the body.
 */

/** The one path whose answers are always counted (contract, 8.2). */
export const chatPath = '/v1/chat/completions'
/** Anthropic's path; its answers are counted where `METER_MESSAGES` says so. */
export const messagesPath = '/v1/messages'
/** The one path that an identity token opens, and that no limit closes (contract, 8.1 and 8.2). */
export const modelsPath = '/v1/models'

/** The paths on which the body names the model; the gateway routes no others without one. */
const sharedPaths: ReadonlySet<string> = new Set([
  chatPath,
  '/v1/completions',
  '/v1/embeddings',
  messagesPath,
  '/v1/responses',
])

/** The paths whose answers are counted. */
export type MeteredPaths = ReadonlySet<string>

/** What is metered, with messages or without. */
export function meteredPaths(withMessages: boolean): MeteredPaths {
  return new Set(withMessages ? [chatPath, messagesPath] : [chatPath])
}

export interface Target {
  /** `<namespace>/<name>` from the path; undefined on the shared paths. */
  readonly modelKey: string | undefined
  /** The path as the model's server knows it, without the query. */
  readonly operation: string
  /** `?…` or empty. */
  readonly query: string
}

/** The target of a path as Envoy normalised it; undefined when it leads to no model. */
export function readTarget(path: string): Target | undefined {
  const queryStart = path.indexOf('?')
  const end = queryStart < 0 ? path.length : queryStart
  const query = path.slice(end)
  const whole = path.slice(0, end)
  if (sharedPaths.has(whole)) return { modelKey: undefined, operation: whole, query }
  const nameStart = path.indexOf('/', 1) + 1
  const operationStart = nameStart === 0 ? -1 : path.indexOf('/', nameStart)
  if (path[0] !== '/' || operationStart < 0 || operationStart >= end) return undefined
  const modelKey = path.slice(1, operationStart)
  const operation = path.slice(operationStart, end)
  if (!operation.startsWith('/v1/') && operation !== '/v1') return undefined
  return { modelKey, operation, query }
}

/**
 * The metered path that a lenient server could take this operation for although it is not
 * spelled so: other case, percent-escapes (of `?` and `#` too), `;parameters`, doubled or
 * trailing slashes, dot segments, backslashes, trailing dots, blanks and characters that show
 * nothing. Such a call would run without being counted, so it is refused. undefined: it is none.
 */
export function misspelledPath(operation: string, metered: MeteredPaths): string | undefined {
  if (metered.has(operation) || operation === modelsPath) return undefined
  const path = loosely(operation)
  return metered.has(path) ? path : undefined
}

function loosely(operation: string): string {
  const text = decode(operation).replace(/[?#].*$/s, '')
  const kept: string[] = []
  for (const written of text.split(/[/\\]/)) {
    const segment = written
      .replace(/;.*$/s, '')
      .replace(/[\s\p{Cc}\p{Cf}]/gu, '')
      // Up, then down: by way of its capital the long s (U+017F) becomes an s, the dotless i an i.
      .toUpperCase()
      .toLowerCase()
    const name = withoutLastDots(segment)
    if (segment === '..') kept.pop()
    else if (name !== '') kept.push(name)
  }
  return `/${kept.join('/')}`
}

/** Without percent-escapes, though they were escaped again; bytes that are no UTF-8 become U+FFFD. */
function decode(operation: string): string {
  let text = operation
  for (let round = 0; round < 3 && text.includes('%'); round += 1) {
    const bytes = Buffer.from(text).toString('latin1')
    const decoded = bytes.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
    text = Buffer.from(decoded, 'latin1').toString()
  }
  return text
}

/** Windows drops them. A loop, since `/\.+$/` takes a time that grows with the square. */
function withoutLastDots(segment: string): string {
  let end = segment.length
  while (segment[end - 1] === '.') end -= 1
  return segment.slice(0, end)
}
