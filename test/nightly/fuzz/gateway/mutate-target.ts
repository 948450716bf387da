/** Changes of the path, the query and the method. */
import type { Dice } from './dice.ts'
import type { Draft } from './draft.ts'

const operations = [
  ...['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/models', '/v1/responses'],
  ...['/v1/messages', '/v1/models/sim', '/v1/tokenize', '/v1/rerank', '/v1/files', '/v1/batches'],
  ...['/v1', '/v1/', '/v1/x', '/v1/audio/speech', '/v1/responses/x', '/v1/messages/count_tokens'],
  ...['/v1/responses/x/cancel', '/v1/responses/x/input_items', '/v1/chat/completions/x/messages'],
  ...['/v1/generate', '/v1/models/sim:generateContent', '/v1/conversations', '/v1/files/x/content'],
] as const

/** Separators between a path and a second one. */
const joints = [
  ...[
    '?',
    '?a=',
    '?a=b&c=',
    '??',
    '#',
    ';',
    ';a=',
    '%3f',
    '%3F',
    '%23',
    '%3b',
    '/',
    '//',
    '/../..',
    '/x',
  ],
  ...[
    '%20',
    '%0a',
    '%0d%0a',
    '%00',
    '%09',
    '\\',
    '%5c',
    '/%2e%2e/%2e%2e',
    '/..;/..;',
    '%252f..',
    '&',
  ],
  ...['%253f', '/.', '/%2e', ':', '@', '/*', '/v1/..', '?%2f', '%u003f', '\u00bf', '?url=http://x'],
] as const

/** Appends a path that a server may take for the requested one. */
export function tail(draft: Draft, dice: Dice): void {
  const path = dice.chance(80) ? '/v1/chat/completions' : dice.pick(operations)
  const written = dice.chance(70) ? path : respelled(path, dice)
  draft.target += dice.pick(joints) + written
}

/** Replaces the operation by another. */
export function operation(draft: Draft, dice: Dice): void {
  const at = draft.target.indexOf('/v1')
  if (at < 0) return
  draft.target = draft.target.slice(0, at) + dice.pick(operations)
  if (dice.chance(50)) tail(draft, dice)
}

/** Inserts segments before the operation. */
export function infix(draft: Draft, dice: Dice): void {
  const put = dice.pick([
    ...[
      '/v1',
      '/v1/x',
      '/v1/models',
      '/v1/models/..',
      '/x',
      '/',
      '/.',
      '/..',
      '/%2e%2e',
      '/v1;x=1',
    ],
    ...['/v1/x/y', '/v1/..;', '/v1/%2e', '/sim', '/v1/embeddings', '/v1?', '/v1/models?', '/v1%3f'],
    ...['//v1', '/\\v1', '/v1\\..', '/v1/files/x/content', '/v1/http:', '/maas-api', '/v1/chat'],
  ])
  const at = draft.target.indexOf('/v1')
  draft.target = draft.target.slice(0, Math.max(0, at)) + put + draft.target.slice(Math.max(0, at))
}

/** Writes one character differently, or adds an invisible one. */
function respelled(path: string, dice: Dice): string {
  const at = dice.below(path.length)
  const code = path.charCodeAt(at)
  const hex = code.toString(16).padStart(2, '0')
  const overlong = `%${(0xc0 | (code >> 6)).toString(16)}%${(0x80 | (code & 0x3f)).toString(16)}`
  const wide = encodeURIComponent(String.fromCharCode(code > 0x20 ? 0xff00 + code - 0x20 : code))
  const letter = path[at] ?? ''
  const put = dice.pick([
    ...[`%${hex}`, `%${hex.toUpperCase()}`, `%25${hex}`, `%2525${hex}`, `%25252525${hex}`],
    ...[overlong, wide, `%u00${hex}`, `%u${(0xff00 + code - 0x20).toString(16)}`, `%${hex}%00`],
    ...[letter.toUpperCase(), `${letter}%00`, `${letter}%ad`, `${letter}%e2%80%8b`, `${letter}.`],
    ...[`${letter};`, `${letter};a=b`, `${letter}%20`, `${letter}%09`, `${letter}/`, `${letter}//`],
    ...[`${letter}\\`, `${letter}%5c`, `%c5%bf`, `${letter}/./`, `${letter}/x/../`, `${letter}%`],
    ...[`%e0%80%${(0x80 | (code & 0x3f)).toString(16)}`, `%${hex.charAt(0)}`, `\\x${hex}`, `+`],
  ])
  return path.slice(0, at) + put + path.slice(at + 1)
}

export function spelling(draft: Draft, dice: Dice): void {
  const from = Math.max(0, draft.target.indexOf('/v1'))
  draft.target = draft.target.slice(0, from) + respelled(draft.target.slice(from) || '/', dice)
}

/** Uses the other forms of a request line. */
export function form(draft: Draft, dice: Dice): void {
  draft.target = dice.pick([
    `http://gateway${draft.target}`,
    `https://gateway:1${draft.target}`,
    `//gateway${draft.target}`,
    draft.target.slice(1),
    ` ${draft.target}`,
    `${draft.target} `,
    `${draft.target} HTTP/1.1 `,
    `/${draft.target}`,
    `${draft.target}?`,
    `${draft.target}?beta=true&after=x`,
    `${draft.target}/`,
    `${draft.target}.json`,
    '*',
  ])
}

export function method(draft: Draft, dice: Dice): void {
  draft.method = dice.pick([
    ...[
      'GET',
      'PUT',
      'PATCH',
      'DELETE',
      'HEAD',
      'OPTIONS',
      'TRACE',
      'CONNECT',
      'QUERY',
      'PROPFIND',
    ],
    ...['post', 'Post', 'POST\t', 'POSTX', 'GET', 'PUT'],
  ])
}
