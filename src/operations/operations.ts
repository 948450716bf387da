/**
 * The operations of a model server that the gateway opens, and which of them are counted.
 *
 * The list is closed. A server may dispatch by suffix or prefix, decode a path more often than
 * Envoy does, or ignore its case. So a path must be spelled exactly as listed to reach it.
 */

import { openableFields, storedFields } from '../kinds/body-fields.ts'

/** The names of countable operations in `METER_PATHS`. */
export const meterable = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
} as const

export type MeterName = keyof typeof meterable

export function isMeterName(raw: string): raw is MeterName {
  return Object.hasOwn(meterable, raw)
}

/** The one operation that an identity token may call, and that no limit applies to (contract, 8.1 and 8.2). */
const modelsPath = '/v1/models'

/** Which operations are counted, and whether operations that may return text uncounted are open. */
export interface PathRules {
  /** Whether a text has the form of our API keys; queries are not searched for keys if undefined. */
  readonly isKey?: ((text: string) => boolean) | undefined
  readonly metered: ReadonlySet<string>
  readonly unmetered: 'open' | 'closed'
}

/** The rules for the names in `METER_PATHS`. */
export function pathRules(
  names: Iterable<MeterName> = ['chat'],
  unmetered: PathRules['unmetered'] = 'open',
  isKey?: PathRules['isKey'],
): PathRules {
  return { isKey, metered: new Set(Array.from(names, (name) => meterable[name])), unmetered }
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
  '/v1/tokenize',
  '/v1/detokenize',
])

const countsTokens = '/v1/messages/count_tokens'

const id = '[\\w~:@-][\\w.~:@-]*'
/** A model id, with escaped slashes. The gateway refuses escaped slashes in other paths. */
const modelId = `${id}(?:%2[Ff]${id})*`
/** Operations for which only the path names the model: uploads, files, batches. */
const namedByPath = new RegExp(
  `^/v1/(?:audio/(?:transcriptions|translations)|images/(?:edits|variations)|files(?:/${id}(?:/content)?)?|batches(?:/${id}(?:/cancel)?)?)$`,
)
/** Read-only operations. A server that routes by prefix could take another method for the operation above. */
const readOnly = new RegExp(`^/v1/(?:models(?:/${modelId})?|responses/${id}(?:/input_items)?)$`)
/** Not the operations next to them, which are not served. */
const storedResponse = new RegExp(
  `^/v1/responses/(?!(?:compact|input_tokens)$)${id}(?:/(?:input_items|cancel))?$`,
)
const cancelsResponse = new RegExp(`^/v1/responses/${id}/cancel$`)

/** Ids of fine-tuned models have colons; so have the methods of Google's APIs (`:predict`). */
const verb = '.*:\\w*(?:[Gg]enerat|[Pp]redict|[Cc]ontent)'

/**
 * The operations that stay open besides counted ones if uncounted ones are closed: they return no text of a model. A
 * stored response, its items, the content of a file and a list of stored chats do return it, and it is unknown whether
 * it has been counted.
 */
const textless: readonly (readonly [methods: readonly string[], operation: RegExp])[] = [
  [['GET', 'HEAD'], new RegExp(`^/v1/models(?:/(?!${verb})${modelId})?$`)],
  [['GET', 'HEAD'], new RegExp(`^/v1/(?:files|batches)(?:/${id})?$`)],
  [['DELETE'], new RegExp(`^/v1/(?:files|responses)/${id}$`)],
  [['POST'], new RegExp(`^/v1/(?:messages/count_tokens|batches/${id}/cancel)$`)],
]

/** Whether the body names the model of this operation, so that it has a shared path. */
export function isNamedByBody(operation: string): boolean {
  return namedByBody.has(operation)
}

/** Whether only the path can name the model of this operation: it has no JSON body with a model. */
export function isNamedByPath(operation: string): boolean {
  return namedByPath.test(operation) || storedResponse.test(operation)
}

/** Whether this is GET or HEAD of exactly the list of models. Only these are free of limits. */
export function isListing(operation: string, method: string): boolean {
  return operation === modelsPath && (method === 'GET' || method === 'HEAD')
}

/** Maximum length of the path below a model's name, and of a query, that is read. */
const maxPathLength = 1_024
const maxQueryLength = 4_096

type LongPart = 'path' | 'query'

/** Why an operation is refused. */
export type PathRefusal =
  | {
      readonly code: 'not_found'
      readonly detail:
        | { readonly about: 'query' | 'unserved' | 'override' }
        /** `path`: the correct spelling. */
        | { readonly about: 'spelling'; readonly path: string }
    }
  | {
      readonly code: 'invalid_request'
      readonly detail:
        | { readonly about: 'path' | 'key_in_query' }
        | { readonly about: 'long'; readonly part: LongPart; readonly max: number }
        /** `field`: the one that must be in the body instead of the query. */
        | { readonly about: 'field'; readonly field: string }
    }
  | {
      readonly code: 'path_closed'
      /**
       * `stored`: it reads or deletes objects that all callers of the model share at its server. `open`: the operations
       * that are counted.
       */
      readonly detail: { readonly operation: string; readonly method: string } & (
        | { readonly about: 'stored' }
        | { readonly about: 'uncounted'; readonly open: readonly string[] }
      )
    }

/**
 * Refuses a path that some server may treat as a metered operation although it is spelled differently, a query from
 * which some server may read another method or field than the gateway has checked, and a path or query that is too long
 * to check. `query` is empty or begins with `?`. Returns undefined for any other.
 */
export function refuseSpelling(
  operation: string,
  query: string,
  { metered, isKey }: PathRules,
): PathRefusal | undefined {
  if (query.length > maxQueryLength) return tooLong('query', maxQueryLength)
  const read = query === '' ? '' : decode(query)
  if (isKey !== undefined && holdsKey(read, isKey)) {
    return { code: 'invalid_request', detail: { about: 'key_in_query' } }
  }
  if (mayHoldPath.test(query) && holdsMetered(read, metered)) {
    return { code: 'not_found', detail: { about: 'query' } }
  }
  return refusePath(operation, metered) ?? refuseOverride(read) ?? refuseField(operation, read)
}

function refusePath(operation: string, metered: PathRules['metered']): PathRefusal | undefined {
  if (namedByBody.has(operation) || operation === modelsPath) return undefined
  if (operation.length > maxPathLength) return tooLong('path', maxPathLength)
  if (malformed.test(operation)) return { code: 'invalid_request', detail: { about: 'path' } }
  const path = lenientPath(operation)
  for (const meant of metered) {
    const end = meant.slice('/v1'.length)
    if (path.endsWith(end) || path.replace(extension, '').endsWith(end)) {
      return { code: 'not_found', detail: { about: 'spelling', path: meant } }
    }
  }
  return undefined
}

/**
 * A path as the most lenient server reads it, without what `loosely` removes; some servers take an escaped `?` or `#`
 * for its end.
 */
export function lenientPath(operation: string): string {
  return loosely(decode(operation).replace(/[?#].*$/s, ''))
}

/** Rails and older versions of Spring ignore an extension: `/v1/messages.json`. */
const extension = /\.[a-z]+$/

/** A key in a query would get to the model's server, and into its log. */
function holdsKey(query: string, isKey: (text: string) => boolean): boolean {
  if (!query.includes('sk-')) return false
  return query.split(/[^0-9A-Za-z_-]/).some(isKey)
}

/** Parameters from which some servers read the method: Rails, Laravel, Express, Google's gateways. */
const overridesMethod =
  /[?&;](?:_(?:http_?)?method|\$httpmethod|(?:x[-_])?(?:http[-_]?)?method[-_]?override)(?:=|&|\[|$)/i

/** Envoy removes the headers of these names. */
function refuseOverride(query: string): PathRefusal | undefined {
  if (!overridesMethod.test(query)) return undefined
  return { code: 'not_found', detail: { about: 'override' } }
}

/**
 * The fields that the gateway reads in a body, or writes into it, by their names in lower case without dashes and
 * underscores.
 */
const bodyFields: ReadonlyMap<string, string> = new Map(
  [
    ...storedFields,
    ...openableFields,
    ...['model', 'stream', 'stream_options', 'background', 'deferred', 'prompt', 'prompt_embeds'],
    'additional_drop_params',
    ...['n', 'n_cmpl', 'best_of', 'candidate_count', 'num_return_sequences'],
    ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict'],
  ].map((name) => [name.replaceAll('_', '').toLowerCase(), name]),
)

/** If the body lacks a field, Rails, Laravel and many handlers of Express read it from the query. */
function refuseField(operation: string, query: string): PathRefusal | undefined {
  if (query === '' || !namedByBody.has(operation)) return undefined
  for (const part of query.split(/[?&;]/)) {
    const name = part.replace(/[=[.].*$/s, '').replace(/[-_+\s]/g, '')
    const field = bodyFields.get(name.toLowerCase())
    if (field !== undefined) return { code: 'invalid_request', detail: { about: 'field', field } }
  }
  return undefined
}

function tooLong(part: LongPart, max: number): PathRefusal {
  return { code: 'invalid_request', detail: { about: 'long', part, max } }
}

/**
 * Refuses an operation that is closed or not on the list; undefined if it is open. With `allPaths`,
 * the list is ignored. `unmetered`: what the rules allow for uncounted operations.
 */
export function refuseOperation(
  operation: string,
  method: string,
  { metered, unmetered: usually }: PathRules,
  allPaths = false,
  unmetered = usually,
): PathRefusal | undefined {
  // With another method it may return stored text, for example a list of chats.
  if (metered.has(operation) && (method === 'POST' || unmetered === 'open')) return undefined
  if (!allPaths && !isKnownOperation(operation, method)) {
    return { code: 'not_found', detail: { about: 'unserved' } }
  }
  // If messages are not counted, it is unknown whether the server treats the request as one.
  const isUnsure = operation === countsTokens && !metered.has(meterable.messages)
  if (unmetered === 'closed' && (isUnsure || !isTextless(operation, method))) {
    const detail = { about: 'uncounted', operation, method, open: [...metered] } as const
    return { code: 'path_closed', detail }
  }
  return undefined
}

/**
 * Whether the usage in the response is counted. Cancelling returns the response, whose usage was not counted: if
 * responses are counted, the gateway lets none run in the background.
 */
export function isMetered(operation: string, { metered }: PathRules): boolean {
  if (metered.has(operation)) return true
  return cancelsResponse.test(operation) && metered.has(meterable.responses)
}

/**
 * Whether the response is counted if it reports usage, but may report none: the response to a count of tokens is a
 * number, unless the server has treated the request as a message.
 */
export function isMeteredIfReported(operation: string, { metered }: PathRules): boolean {
  return operation === countsTokens && metered.has(meterable.messages)
}

/** Whether an operation may return text of a model that is not counted. */
export function isUncounted(operation: string, method: string, rules: PathRules): boolean {
  return !isMetered(operation, rules) && !isTextless(operation, method)
}

/** Whether this is one of the operations that are served by every model. */
export function isKnownOperation(operation: string, method: string): boolean {
  if (namedByBody.has(operation) || namedByPath.test(operation)) return true
  if (cancelsResponse.test(operation)) return method === 'POST'
  if (!readOnly.test(operation)) return false
  if (method === 'GET' || method === 'HEAD') return true
  return method === 'DELETE' && operation.startsWith('/v1/responses/')
}

function isTextless(operation: string, method: string): boolean {
  return textless.some(([methods, each]) => methods.includes(method) && each.test(operation))
}

/**
 * Escapes that no honest client sends: overlong and fullwidth forms, `%uXXXX`, and characters that are
 * escaped more than three times over. The route `malformed` of envoy/bootstrap.yaml has the same expression.
 */
const malformed = /%(?:c[01]|e0%[89]|ef%b[cd]|u[0-9a-f]{4}|252525)/i

/** A query without other characters contains no path. */
const mayHoldPath = /[^\w?=&.,:~+-]/

function holdsMetered(query: string, metered: ReadonlySet<string>): boolean {
  const text = loosely(query)
  for (const each of metered) {
    if (text.includes(each) || text.endsWith(each.slice('/v1'.length))) return true
  }
  return false
}

/**
 * A decoded path as the most lenient server reads it: lower case, without `;parameters`, doubled or trailing slashes,
 * dot segments, trailing dots, whitespace and invisible characters, and with backslashes as slashes.
 */
function loosely(text: string): string {
  const kept: string[] = []
  for (const segment of fold(text).split(separator)) {
    const name = withoutLastDots(segment)
    if (segment === '..') kept.pop()
    else if (name !== '') kept.push(name)
  }
  return `/${kept.join('/')}`
}

/** Between segments, because NFKC produces slashes from some characters, too late to separate segments. */
const separator = '\0'

/** Folds all segments at once: a text may have thousands. */
function fold(text: string): string {
  return (
    text
      .replace(/;[^/\\]*/g, '')
      .replace(/[\s\p{Cc}\p{Cf}]+/gu, '')
      .replace(/[/\\]+/g, separator)
      // NFKC takes quadratic time for combining marks. No operation has one.
      .replace(/\p{M}+/gu, '\ufffd')
      // NFKC turns fullwidth forms into ASCII. Upper case, then lower case, turns the long s
      // (U+017F) into s and the dotless i into i.
      .normalize('NFKC')
      .toUpperCase()
      .toLowerCase()
  )
}

const percent = 0x25

/** Decodes percent-escapes, nested ones too; bytes that are not UTF-8 become U+FFFD. */
function decode(text: string): string {
  if (!text.includes('%')) return text
  const bytes = Buffer.from(text)
  let length = bytes.length
  for (let round = 0; round < 3; round += 1) length = decodeOnce(bytes, length)
  return bytes.toString('utf8', 0, length)
}

/** Decodes the first `length` bytes in place; returns their number afterwards. */
function decodeOnce(bytes: Buffer, length: number): number {
  let to = 0
  for (let from = 0; from < length; from += 1) {
    let byte = bytes[from] as number
    if (byte === percent && from + 2 < length) {
      const [high, low] = [hexDigit(bytes[from + 1]), hexDigit(bytes[from + 2])]
      if (high >= 0 && low >= 0) {
        byte = high * 16 + low
        from += 2
      }
    }
    bytes[to] = byte
    to += 1
  }
  return to
}

/** The value of an ASCII hexadecimal digit, or -1. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** Windows ignores trailing dots. A loop, because `/\.+$/` takes quadratic time. */
function withoutLastDots(segment: string): string {
  let end = segment.length
  while (segment[end - 1] === '.') end -= 1
  return segment.slice(0, end)
}
