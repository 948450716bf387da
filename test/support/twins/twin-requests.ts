/** Random requests: most are what clients send, some are not. */

import { gzipSync } from 'node:zlib'
import type { Random } from '../random.ts'
import type { TwinRequest } from './twin-gateways.ts'
import { modelNames } from './twin-world.ts'

const operations = ['chat/completions', 'completions', 'messages', 'embeddings', 'responses']
const rare = [
  ...['messages/count_tokens', 'models', 'models/sim', 'moderations', 'files', 'rerank', ''],
  ...['chat/completions/', 'Chat/completions', 'chat//completions', 'chat/%63ompletions'],
  ...['chat/completions;x=1', 'chat/../chat/completions', 'chat/completions%2f..', './completions'],
]
const oddNames = ['sim-large', 'sim-small', 'nick', 'fürst', 'a b', 'none', '', 'publishers/x']
const queries = ['', '', '', '?beta=true', '?beta=true&x=1', '?x=1', '?', '?beta=true#x', '?%00']
/** Members of bodies that parsers read differently, or that choose more than the model. */
const oddMembers = [
  ...['"model":"other"', '"Model":"other"', '"\\u006dodel":"other"', '"mo-del":"x"', '"x":NaN'],
  ...[
    '"stream":1',
    '"stream":"true"',
    '"Stream":true',
    '"stream":true,"stream":false',
    '"n":2',
    '"n":0',
  ],
  ...['"n":1,"n":3', '"best_of":2', '"stream_options":{}', '"stream_options":null,"stream":true'],
  ...[
    '"stream_options":{"include_usage":false},"stream":true',
    '"models":["other"]',
    '"user":"ann"',
  ],
  ...[
    '"max_tokens":7',
    '"max_tokens":-1',
    '"max_completion_tokens":9',
    '"max_tokens":1e3',
    '"x":"\\ud800"',
  ],
  ...['"background":true', '"store":true', '"previous_response_id":"r"', '"lora":"x"', '"x":1,'],
]
const oddHeaders: readonly (readonly [string, string])[] = [
  ['x-tollgate-cluster', 'llm/other'],
  ['X-Tollgate-Path', '/v1/models'],
  ['x-tollgate-miss', 'off'],
  ['x-tollgate-models', 'x'],
  ['x-tollgate-open', 'models'],
  ['x-tollgate-idle', '1h'],
  ['x-tollgate-upstream-model', 'x'],
  ['x-tollgate-hop', 'x'],
  ['x-tollgate-again', 'true'],
  ['x-maas-subscription', 'small'],
  ['X-MaaS-Username', 'admin'],
  ['x-envoy-upstream-rq-timeout-ms', '1'],
  ['x-envoy-max-retries', '9'],
  ['x-envoy-original-path', '/v1/models'],
  ['x-request-id', '00000000-0000-9000-8000-000000000000'],
  ['x-request-id', 'x'],
  ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
  ['x-client-trace-id', 'x'],
  ['x-envoy-force-trace', 'true'],
  ['content-encoding', 'identity'],
  ['content-encoding', 'gzip'],
  ['accept-encoding', 'gzip'],
  ['expect', '100-continue'],
  ['te', 'trailers'],
  ['x-forwarded-for', '192.0.2.1'],
  ['anthropic-version', '2023-06-01'],
  ['anthropic-beta', 'x'],
  ['user-agent', 'tollgate'],
  ['x-sim-label', 'a'],
  ['content-type', 'text/plain'],
  ['cookie', 'a=b'],
  ['x-http-method-override', 'GET'],
]
const credentials: readonly (readonly (readonly [string, string])[])[] = [
  [['x-api-key', '{key}']],
  [['authorization', 'bEARER   {key}  ']],
  [
    ['authorization', 'Bearer {key}'],
    ['x-api-key', '{key}'],
  ],
  [
    ['authorization', 'Bearer {key}'],
    ['x-api-key', 'sk-other'],
  ],
  [
    ['authorization', 'Bearer {key}'],
    ['authorization', 'Bearer {key}'],
  ],
  [
    ['authorization', 'Bearer {key}'],
    ['authorization', 'Bearer sk-other'],
  ],
  [['authorization', 'Bearer {key}, Bearer {key}']],
  [['authorization', 'Bearer {key},']],
  [['authorization', 'Bearer {key} x']],
  [['authorization', 'Bearer\t{key}']],
  [['authorization', 'Bearer {key}x']],
  [['authorization', '{key}']],
  [['authorization', 'Basic {key}']],
  [
    ['authorization', ''],
    ['x-api-key', '{key}'],
  ],
  [['x-api-key', ' {key} ']],
  [
    ['x-api-key', '{key}'],
    ['x-api-key', '{key}'],
  ],
  [
    ['x-api-key', ''],
    ['authorization', 'Bearer {key}'],
  ],
  [['authorization', 'Bearer token-user-1']],
  [['proxy-authorization', 'Bearer {key}']],
  [],
]
const answers: readonly object[] = [
  ...[
    { status: 500 },
    { status: 401 },
    { status: 403 },
    { status: 429 },
    { status: 404, totalTokens: 9 },
  ],
  ...[
    { usage: 'none' },
    { usage: 'null' },
    { usage: 'text' },
    { usageRaw: '{"total_tokens":4e1}' },
  ],
  ...[
    { usageRaw: '{"prompt_tokens":31}' },
    { usageRaw: '{' },
    { splitBytes: 1 },
    { splitUsageBytes: 1 },
  ],
  ...[
    { crlf: true },
    { compress: 'gzip' },
    { compress: 'auto' },
    { usageEveryChunk: true },
    { delayMs: 30 },
  ],
  ...[{ dropAfterChunks: 2 }, { contentType: 'text/plain' }, { answerBytes: 90_000 }, { words: 0 }],
]

/** One in this many choices is unusual. */
const rarity = 24

/** What a decision depends on, in addition to the key. */
export interface AskedTarget {
  readonly path: string
  readonly operation: string
  /** In the body. */
  readonly model: string
}

export function randomTarget(random: Random): AskedTarget {
  const { of, isOdd } = choose(random)
  const model = random.below(5) === 0 ? of(modelNames) : 'sim'
  const operation = random.below(2) === 0 ? 'chat/completions' : of(operations)
  const usual = random.below(2) === 0 ? `/llm/${model}` : ''
  const prefix = isOdd() ? of(['/llm/none', '/LLM/sim', '/llm']) : usual
  return {
    path: `${prefix}/v1/${isOdd() ? of(rare) : operation}${isOdd() ? of(queries) : ''}`,
    operation,
    model: isOdd() ? of([...modelNames, ...oddNames]) : model,
  }
}

export function randomRequest(random: Random, target: AskedTarget): TwinRequest {
  const { of, isOdd } = choose(random)
  const { path, operation, model } = target
  const sim = { words: 10 + random.below(50), ...(random.below(6) === 0 ? of(answers) : {}) }
  const text = bodyOf(operation, model, sim, isOdd() ? of(oddMembers) : undefined, random)
  const body = isOdd() ? spoil(text, random) : Buffer.from(text)
  const isGet = isOdd()
  return {
    method: isGet ? of(['GET', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'post']) : 'POST',
    path,
    headers: [
      ...(isOdd() ? of(credentials) : ([['authorization', 'Bearer {key}']] as const)),
      ['content-type', 'application/json'] as const,
      ...(isOdd() ? [of(oddHeaders)] : []),
    ],
    body: isGet && random.below(2) === 0 ? Buffer.alloc(0) : body,
    isChunked: isOdd(),
  }
}

function choose(random: Random) {
  return {
    of: <T>(list: readonly T[]) => list[random.below(list.length)] as T,
    isOdd: () => random.below(rarity) === 0,
  }
}

function bodyOf(
  operation: string,
  model: string,
  sim: object,
  odd: string | undefined,
  random: Random,
): string {
  const input = operation.startsWith('completions')
    ? { prompt: 'Hi there' }
    : operation === 'embeddings' || operation === 'responses'
      ? { input: 'Hi there' }
      : { messages: [{ role: 'user', content: 'Hi there' }] }
  const isStream = operation !== 'embeddings' && random.below(3) === 0
  const text = JSON.stringify({
    ...{ model, ...input },
    ...(operation === 'messages' && { max_tokens: 60 }),
    ...(isStream && { stream: true }),
    ...(isStream && random.below(2) === 0 && operation.endsWith('completions')
      ? { stream_options: { include_usage: true } }
      : {}),
    sim,
  })
  return odd === undefined ? text : `${text.slice(0, -1)},${odd}}`
}

function spoil(text: string, random: Random): Buffer {
  const large = (bytes: number) => Buffer.from(text.replace('Hi there', 'word '.repeat(bytes / 5)))
  switch (random.below(9)) {
    case 0:
      return Buffer.alloc(0)
    case 1:
      return Buffer.from(text.slice(0, -1))
    case 2:
      return Buffer.from(`\ufeff${text}`)
    case 3:
      return Buffer.from(`${text} x`)
    case 4:
      return Buffer.from(text, 'utf16le')
    case 5:
      return gzipSync(text)
    case 6:
      return large(70_000)
    case 7:
      return large(1_200_000)
    default:
      return Buffer.from(text.replace('"model"', '"modell"'))
  }
}
