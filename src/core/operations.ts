/**
 * The operations of a model server that the gateway opens, and which of them are counted.
 *
 * The list is closed. A server may dispatch by suffix or by prefix, decode a path more often than
 * Envoy does, or fold its case: whatever is not spelled exactly as listed does not reach it.
 */

/** What `METER_PATHS` calls the operations that can be counted. */
export const meterable = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
} as const

export type MeterName = keyof typeof meterable

export function isMeterName(written: string): written is MeterName {
  return Object.hasOwn(meterable, written)
}

/** The one operation that an identity token opens, and that no limit closes (contract, 8.1 and 8.2). */
export const modelsPath = '/v1/models'

/** Which operations are counted, and whether those that cost tokens and are not counted are open. */
export interface PathRules {
  readonly metered: ReadonlySet<string>
  readonly unmetered: 'open' | 'closed'
}

/** The rules for the names in `METER_PATHS`. */
export function pathRules(
  names: Iterable<MeterName> = ['chat'],
  unmetered: PathRules['unmetered'] = 'open',
): PathRules {
  return { metered: new Set(Array.from(names, (name) => meterable[name])), unmetered }
}

/** Operations whose body is JSON and names the model. They are served on shared paths too. */
const namedByBody: ReadonlySet<string> = new Set([
  ...Object.values(meterable),
  '/v1/messages/count_tokens',
  '/v1/rerank',
  '/v1/score',
  '/v1/moderations',
  '/v1/images/generations',
  '/v1/audio/speech',
])

const id = '[\\w~:@-][\\w.~:@-]*'
/** Operations whose model is named by the path alone: uploads, files, batches. */
const namedByPath = new RegExp(
  `^/v1/(?:audio/(?:transcriptions|translations)|images/(?:edits|variations)|files(?:/${id}(?:/content)?)?|batches(?:/${id}(?:/cancel)?)?)$`,
)
const tokenizing = /^\/v1\/(?:de)?tokenize$/
/** What is only read. A server that mounts by prefix would take another method for the operation above. */
const readOnly = new RegExp(`^/v1/(?:models(?:/${id})?|responses/${id}(?:/input_items)?)$`)

/** Whether a shared path leads to this operation, its model being named by the body. */
export function isNamedByBody(operation: string): boolean {
  return namedByBody.has(operation)
}

/** Whether the model of this operation can only be named by the path. */
export function isNamedByPath(operation: string): boolean {
  return namedByPath.test(operation)
}

/** GET and HEAD of exactly the list of models: nothing else is free of limits. */
export function isListing(operation: string, method: string): boolean {
  return operation === modelsPath && (method === 'GET' || method === 'HEAD')
}

/** Why an operation is refused. */
export type Refusal =
  | { readonly code: 'not_found'; readonly detail: { readonly about: 'query' | 'unserved' } }
  | { readonly code: 'invalid_request'; readonly detail: { readonly about: 'path' } }
  /** `path`: as it has to be written. */
  | {
      readonly code: 'not_found'
      readonly detail: { readonly about: 'spelling'; readonly path: string }
    }
  /** `open`: the operations that are counted. */
  | {
      readonly code: 'path_closed'
      readonly detail: {
        readonly about: 'uncounted'
        readonly operation: string
        readonly open: readonly string[]
      }
    }

/**
 * The refusal of what some server may take for a metered operation although it is not spelled so;
 * `query` is empty or begins with `?`. undefined: no server does.
 */
export function refuseSpelling(
  operation: string,
  query: string,
  { metered }: PathRules,
): Refusal | undefined {
  if (mayHoldPath.test(query) && holdsMetered(query, metered)) {
    return { code: 'not_found', detail: { about: 'query' } }
  }
  if (namedByBody.has(operation) || operation === modelsPath) return undefined
  if (malformed.test(operation)) return { code: 'invalid_request', detail: { about: 'path' } }
  const path = loosely(operation)
  for (const meant of metered) {
    if (path.endsWith(meant.slice('/v1'.length))) {
      return { code: 'not_found', detail: { about: 'spelling', path: meant } }
    }
  }
  return undefined
}

/**
 * The refusal of an operation that is not on the list, or closed; undefined: it is open. `allPaths`:
 * the list does not matter.
 */
export function refuseOperation(
  operation: string,
  method: string,
  rules: PathRules,
  allPaths = false,
): Refusal | undefined {
  const { metered } = rules
  if (metered.has(operation)) return undefined
  if (!allPaths && !isKnown(operation, method)) {
    return { code: 'not_found', detail: { about: 'unserved' } }
  }
  if (rules.unmetered === 'closed' && costsTokens(operation, method)) {
    return { code: 'path_closed', detail: { about: 'uncounted', operation, open: [...metered] } }
  }
  return undefined
}

/** Whether an operation costs tokens that nobody counts. */
export function isUncounted(operation: string, method: string, { metered }: PathRules): boolean {
  return !metered.has(operation) && costsTokens(operation, method)
}

function isKnown(operation: string, method: string): boolean {
  if (namedByBody.has(operation) || namedByPath.test(operation)) return true
  if (tokenizing.test(operation)) return true
  if (!readOnly.test(operation)) return false
  if (method === 'GET' || method === 'HEAD') return true
  return method === 'DELETE' && operation.startsWith('/v1/responses/')
}

function costsTokens(operation: string, method: string): boolean {
  if (readOnly.test(operation) || tokenizing.test(operation)) return false
  if (operation === '/v1/messages/count_tokens') return false
  return method !== 'GET' && method !== 'HEAD' && method !== 'DELETE'
}

/**
 * Forms that no honest client writes: overlong and fullwidth ones, `%uXXXX`, and what is escaped
 * more than three times. The route `malformed` of envoy/bootstrap.yaml has the same expression.
 */
const malformed = /%(?:c[01]|e0%[89]|ef%b[cd]|u[0-9a-f]{4}|252525)/i

/** Queries of other characters alone hold no path. */
const mayHoldPath = /[^\w?=&.,:~+-]/

function holdsMetered(query: string, metered: ReadonlySet<string>): boolean {
  const text = loosely(query, (decoded) => decoded)
  for (const each of metered) {
    if (text.includes(each) || text.endsWith(each.slice('/v1'.length))) return true
  }
  return false
}

/**
 * A path as the most lenient server takes it: case folded, percent-escapes resolved (those of `?`
 * and `#` too), without `;parameters`, doubled or trailing slashes, dot segments, trailing dots,
 * blanks and characters that show nothing; backslashes are slashes.
 */
function loosely(operation: string, cut = withoutQuery): string {
  const kept: string[] = []
  for (const written of cut(decode(operation)).split(/[/\\]/)) {
    const segment = written
      .replace(/;.*$/s, '')
      .replace(/[\s\p{Cc}\p{Cf}]/gu, '')
      // Fullwidth forms become what they look like; up, then down: by way of its capital the long s
      // (U+017F) becomes an s, the dotless i an i.
      .normalize('NFKC')
      .toUpperCase()
      .toLowerCase()
    const name = withoutLastDots(segment)
    if (segment === '..') kept.pop()
    else if (name !== '') kept.push(name)
  }
  return `/${kept.join('/')}`
}

function withoutQuery(text: string): string {
  return text.replace(/[?#].*$/s, '')
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
