/**
 * What a request is aimed at, read from its path alone. Two shapes lead to a model:
 * `/<namespace>/<model>/v1/…` names it, `/v1/…` leaves it to the body.
 */

/** The one path whose answers are counted (contract, 8.2). */
export const chatPath = '/v1/chat/completions'
/** The one path that an identity token opens, and that no limit closes (contract, 8.1 and 8.2). */
export const modelsPath = '/v1/models'

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
  if (path.startsWith('/v1/')) return { modelKey: undefined, operation: path.slice(0, end), query }
  const nameStart = path.indexOf('/', 1) + 1
  const operationStart = nameStart === 0 ? -1 : path.indexOf('/', nameStart)
  if (path[0] !== '/' || operationStart < 0 || operationStart >= end) return undefined
  const modelKey = path.slice(1, operationStart)
  const operation = path.slice(operationStart, end)
  if (!operation.startsWith('/v1/') && operation !== '/v1') return undefined
  return { modelKey, operation, query }
}

/**
 * Whether a lenient server could take this operation for a chat completion although it is not
 * spelled like one: other case, percent-escapes, `;parameters`, doubled or trailing slashes, dot
 * segments, backslashes. Such a call would run without being counted, so it is refused.
 */
export function isMisspelledChat(operation: string): boolean {
  if (operation === chatPath || operation === modelsPath) return false
  return loosely(operation) === chatPath
}

function loosely(operation: string): string {
  let text = operation
  for (let round = 0; round < 3 && text.includes('%'); round += 1) {
    text = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
  }
  const kept: string[] = []
  for (const written of text.toLowerCase().split(/[/\\]/)) {
    const segment = written
      .replace(/[;?#].*$/s, '')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: some servers trim them
      .replace(/[\u0000-\u0020\u007f]/g, '')
    if (segment === '..') kept.pop()
    else if (segment !== '' && segment !== '.') kept.push(segment)
  }
  return `/${kept.join('/')}`
}
