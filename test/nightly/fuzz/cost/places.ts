/** The places of an exchange that a client or a model fills, and how each is filled. */
import type { Exchange } from './far-side.ts'
import type { World } from './world.ts'

/** What a text must be made of; the atoms of each are in shapes.ts. */
export type Kind =
  | 'items'
  | 'members'
  | 'text'
  | 'digits'
  | 'path'
  | 'query'
  | 'header'
  | 'lines'
  | 'events'

export interface Place {
  readonly name: string
  readonly kind: Kind
  /** The length of the text in bytes. */
  readonly length: number
  /** What an ordinary client or model would send there. */
  readonly plain: string
  exchange(text: string, world: Pick<World, 'key' | 'keyId' | 'token'>): Exchange
}

const chat = '/llm/sim/v1/chat/completions'
const message = '{"role":"user","content":"What is the height of the Eiffel tower?"},'
/** A server may report its usage in every event. */
const delta =
  'data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" tower"}}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}\n\n'

interface Wish {
  readonly method?: string
  readonly path?: string
  readonly credential?: string
  readonly headers?: string
  readonly body?: string
  readonly answer?: string
  readonly answerType?: string
}

const json = 'application/json'

function toExchange(wish: Wish, key: string): Exchange {
  const { method = 'POST', path = chat, credential = `Bearer ${key}`, headers = '' } = wish
  const { body = '{"model":"sim"}', answer = '{"usage":{"total_tokens":1}}' } = wish
  const head = `${method} ${path} HTTP/1.1\r\nhost: gateway\r\nauthorization: ${credential}\r\n`
  const length = Buffer.byteLength(body)
  const request = `${head}${headers}content-length: ${length}\r\n\r\n${body}`
  return {
    request: Buffer.from(request),
    answer: Buffer.from(answer),
    answerType: wish.answerType ?? json,
  }
}

/** A usual call. */
export function plainExchange({ key }: Pick<World, 'key'>): Exchange {
  return toExchange({}, key)
}

type Make = (text: string, token: string, keyId: string) => Wish

function place(name: string, kind: Kind, length: number, plain: string, make: Make): Place {
  const exchange: Place['exchange'] = (text, { key, keyId, token }) =>
    toExchange(make(text, token, keyId), key)
  return { name, kind, length, plain, exchange }
}

const body = (value: string): Wish => ({ body: `{"model":"sim","messages":${value}}` })
const shared = (wish: Wish): Wish => ({ ...wish, path: '/v1/chat/completions' })
const anonymous = (wish: Wish): Wish => ({ ...shared(wish), credential: 'Bearer x' })
const reported = (value: string): Wish => ({
  answer: `{"usage":{"total_tokens":2},"choices":${value}}`,
})
const stream = (text: string): Wish => ({ answer: text, answerType: 'text/event-stream' })
const messages = (wish: Wish): Wish => ({ ...wish, path: '/llm/sim/v1/messages' })
const inList = (text: string) => `[${text}0]`
const inObject = (text: string) => `{${text}"z":0}`
const member = '"question {n}":"What is the height of the Eiffel tower?",'

/** A body that is read before its caller is known has at most 64 KiB. */
const small = 60_000
/** All headers of a request have at most 32 KiB. */
const head = 24_000

export const places: readonly Place[] = [
  place('items of a body', 'items', small, message, (text) => body(inList(text))),
  place('items of an anonymous body', 'items', small, message, (text) =>
    anonymous(body(inList(text))),
  ),
  place('items of a long body', 'items', 600_000, message, (text) => body(inList(text))),
  place('names of a body', 'members', small, member, (text) => body(inObject(text))),
  place('text of a body', 'text', small, 'a', (text) => body(`"${text}"`)),
  place('digits of a body', 'digits', small, '1', (text) => body(text)),
  place('name in a body', 'text', small, 'a', (text) => ({ body: `{"model":"sim","${text}":0}` })),
  place('model of a body', 'text', small, 'a', (text) => shared({ body: `{"model":"${text}"}` })),
  place('items of an answer', 'items', small, message, (text) => reported(inList(text))),
  place('items of usage', 'items', small, message, (text) => ({
    answer: `{"usage":{"total_tokens":2,"details":${inList(text)}}}`,
  })),
  place('names of an answer', 'members', small, member, (text) => reported(inObject(text))),
  place('text of an answer', 'text', small, 'a', (text) => reported(`"${text}"`)),
  place('digits of usage', 'digits', small, '1', (text) => ({
    answer: `{"usage":{"total_tokens":${text}}}`,
  })),
  place('events', 'events', small, delta, stream),
  place('events of messages', 'events', small, delta, (text) => messages(stream(text))),
  place('items of an event', 'items', small, message, (text) =>
    stream(`data: {"usage":{"total_tokens":2},"choices":${inList(text)}}\n\n`),
  ),
  place('model of a path', 'path', head, 'a', (text) => ({
    path: `/llm/${text}/v1/chat/completions`,
  })),
  place('namespace of a path', 'path', head, 'a', (text) => ({
    path: `/${text}/sim/v1/chat/completions`,
    credential: 'Bearer x',
  })),
  place('short operation', 'path', 1_000, 'a', (text) => ({ path: `/llm/sim/v1/${text}` })),
  place('operation', 'path', head, 'a', (text) => ({ path: `/llm/sim/v1/${text}` })),
  place('short query', 'query', 4_000, 'a', (text) => ({ path: `${chat}?/${text}` })),
  place('query', 'query', head, 'a', (text) => ({ path: `${chat}?/${text}` })),
  ...[
    'x-maas-subscription',
    'x-api-key',
    'accept',
    'content-type',
    'cookie',
    'traceparent',
    'x-forwarded-for',
  ].map((name) =>
    place(`header ${name}`, 'header', head, 'a', (text) => ({ headers: `${name}: ${text}\r\n` })),
  ),
  place('credential', 'header', 16_000, 'a', (text) => ({ credential: `Bearer ${text}` })),
  place('header lines', 'lines', 1_200, 'a-usual-header: of usual length\r\n', (text) => ({
    headers: text,
  })),
  place('search of keys', 'items', small, message, (text, token) => ({
    path: '/v1/api-keys/search',
    credential: `Bearer ${token}`,
    body: `{"filters":{"status":${inList(text)}}}`,
  })),
  place('name of a key', 'text', small, 'a', (text, token) => ({
    path: '/v1/api-keys',
    credential: `Bearer ${token}`,
    body: `{"name":"${text}"}`,
  })),
  place('id of a key', 'path', head, 'a', (text, token) => ({
    method: 'GET',
    path: `/v1/api-keys/${text}`,
    credential: `Bearer ${token}`,
    body: '',
  })),
  ...(
    [
      ['names of a search', 'POST', '/v1/api-keys/search', '{TEXT"z":0}'],
      [
        'labels in a search',
        'POST',
        '/v1/api-keys/search',
        '{"filters":{"labelsContain":{TEXT"z":0}}}',
      ],
      ['labels of a key', 'POST', '/v1/api-keys', '{"name":"a","labels":{TEXT"z":0}}'],
      ['names of a change', 'PATCH', '/v1/api-keys/{id}', '{TEXT"z":0}'],
      ['names of a rotation', 'POST', '/v1/api-keys/{id}/rotate', '{TEXT"z":0}'],
      ['names of a question', 'POST', '/v1/explain', '{TEXT"z":0}'],
      ['names of a simulation', 'POST', '/v1/simulate', '{TEXT"z":0}'],
    ] as const
  ).map(([name, method, path, body]) =>
    place(name, 'members', 20_000, member, (text, token, keyId) => ({
      method,
      path: path.replace('{id}', keyId),
      credential: `Bearer ${token}`,
      body: body.replace('TEXT', () => text),
    })),
  ),
  place('models of a key', 'items', small, message, (text, token, keyId) => ({
    method: 'PATCH',
    path: `/v1/api-keys/${keyId}`,
    credential: `Bearer ${token}`,
    body: `{"models":${inList(text)}}`,
  })),
  place('path of a question', 'text', small, 'a', (text, token) => ({
    path: '/v1/explain',
    credential: `Bearer ${token}`,
    body: `{"model":"llm/sim","path":"/llm/sim/v1/${text}"}`,
  })),
  ...['/v1/usage', '/v1/limits', '/v1/counters'].map((path) =>
    place(`query of ${path}`, 'query', head, 'a', (text, token) => ({
      method: 'GET',
      path: `${path}?${text}`,
      credential: `Bearer ${token}`,
      body: '',
    })),
  ),
  place('query of the API', 'query', head, 'a', (text, token) => ({
    method: 'GET',
    path: `/v1/subscriptions?${text}`,
    credential: `Bearer ${token}`,
    body: '',
  })),
]
