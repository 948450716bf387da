import { test } from 'tap'
import {
  isListing,
  isMetered,
  isUncounted,
  type MeterName,
  meterable,
  pathRules,
  refuseOperation,
  refuseSpelling,
} from '../../src/operations/operations.ts'
import { costRatio } from '../support/cost.ts'

const chat = pathRules()
const withMessages = pathRules(['chat', 'messages'])

const refused = (operation: string, { query = '', method = 'POST', rules = chat } = {}) =>
  refuseSpelling(operation, query, rules) ?? refuseOperation(operation, method, rules)

const misspelled = [
  '/v1/chat/completions/',
  '/v1/chat/completions//',
  '/v1//chat/completions',
  '//v1/chat/completions',
  '/v1/chat//completions',
  '/v1/Chat/Completions',
  '/V1/chat/completions',
  '/v1/CHAT/COMPLETIONS',
  '/v1/./chat/completions',
  '/v1/chat/./completions',
  '/v1/chat/completions/.',
  '/v1/x/../chat/completions',
  '/v1/chat/completions/x/..',
  '/v1/../v1/chat/completions',
  '/../v1/chat/completions',
  '/v1/chat/completions;',
  '/v1/chat/completions;a=b',
  '/v1/chat;x/completions',
  '/v1/;/chat/completions',
  '/v1/x/..;/chat/completions',
  '/v1/.;x/chat/completions',
  '/v1/ch%61t/completions',
  '/v1/%63%68%61%74/completions',
  '/v1/chat%2fcompletions',
  '/v1/chat%2Fcompletions',
  '/v1%2fchat%2fcompletions',
  '/v1/chat/completions%2f',
  '/v1/%2e/chat/completions',
  '/v1/x/%2e%2e/chat/completions',
  '/v1/x/.%2e/chat/completions',
  '/v1/ch%2561t/completions',
  '/v1/ch%252561t/completions',
  '/v1/chat%252fcompletions',
  '/v1/%43hat/completions',
  '/v1/chat%5ccompletions',
  '/v1/chat\\completions',
  '/v1\\chat\\completions',
  '/v1/chat/completions\\',
  '/v1/chat/completions%00',
  '/v1/chat/completions%20',
  '/v1/chat/completions ',
  '/v1/%20chat/completions',
  '/v1/chat/completions%09',
  '/v1/chat/completions%0a',
  '/v1/chat/completions%0d%0a',
  '/v1/chat/comple%00tions',
  '/v1/chat/completions%7f',
  '/v1/chat/completions%3f',
  '/v1/chat/completions%3fx=1',
  '/v1/chat/completions%3f/x',
  '/v1/chat/completions%23',
  '/v1/chat/completions%23/x',
  '/v1/chat/completions%253f/x',
  '/v1/chat/completions#x',
  '/v1/chat/completions%3b',
  '/v1/chat/completions%3ba=b',
  '/v1/chat/completions?x',
  '/v1/chat/completions.',
  '/v1/chat/completions%2e%2e%2e',
  '/v1/chat./completions',
  '/v1/chat/completions.;x',
  '/v1/chat/completion%c5%bf',
  '/v1/chat/completion%C5%BF/',
  '/v1/chat/completion\u017f',
  '/v1/chat/complet%c4%b1ons',
  '/v1/chat/completions%c2%a0',
  '/v1/chat/completions%e2%80%8b',
  '/v1/chat/completions%ef%bb%bf',
  '/v1/chat/comple%c2%adtions',
]

test('a misspelled metered path is refused with its correct spelling', async (t) => {
  for (const operation of misspelled) {
    for (const rules of [chat, withMessages]) {
      const detail = { about: 'spelling', path: '/v1/chat/completions' }
      t.strictSame(refused(operation, { rules }), { code: 'not_found', detail }, operation)
    }
  }
})

test('spellings that no client uses are malformed', async (t) => {
  for (const operation of [
    '/v1/chat%c0%afcompletions',
    '/v1/chat%C1%9Ccompletions',
    '/v1/chat%e0%80%afcompletions',
    '/v1/chat%ef%bc%8fcompletions',
    '/v1/%ef%bd%83hat/completions',
    '/v1/chat%u002fcompletions',
    '/v1/chat%2525252fcompletions',
    '/v1/chat/completion%25252573',
  ]) {
    t.equal(refused(operation)?.code, 'invalid_request', operation)
  }
})

/** Operations that are open, with the methods of each. */
const open: Readonly<Record<string, readonly string[]>> = {
  '/v1/chat/completions': ['POST', 'GET', 'PUT'],
  '/v1/completions': ['POST'],
  '/v1/embeddings': ['POST'],
  '/v1/responses': ['POST'],
  '/v1/responses/resp_1': ['GET', 'HEAD', 'DELETE'],
  '/v1/responses/resp_1/input_items': ['GET'],
  '/v1/responses/resp_1/cancel': ['POST'],
  '/v1/messages': ['POST'],
  '/v1/messages/count_tokens': ['POST'],
  '/v1/models': ['GET', 'HEAD'],
  '/v1/models/small': ['GET'],
  '/v1/models/ft:small:acme::7p': ['GET'],
  '/v1/audio/speech': ['POST'],
  '/v1/audio/transcriptions': ['POST'],
  '/v1/images/generations': ['POST'],
  '/v1/images/edits': ['POST'],
  '/v1/files': ['POST', 'GET'],
  '/v1/files/file-1': ['GET', 'DELETE'],
  '/v1/files/file-1/content': ['GET'],
  '/v1/batches': ['POST', 'GET'],
  '/v1/batches/batch_1/cancel': ['POST'],
  '/v1/rerank': ['POST'],
  '/v1/score': ['POST'],
  '/v1/moderations': ['POST'],
  '/v1/tokenize': ['POST'],
}

test('known operations are open', async (t) => {
  for (const [operation, methods] of Object.entries(open)) {
    for (const method of methods) {
      t.equal(refused(operation, { method }), undefined, `${method} ${operation}`)
      t.equal(refused(operation, { method, rules: withMessages }), undefined)
    }
  }
})

test('all other operations are closed', async (t) => {
  const { metered } = pathRules(['chat', 'messages', 'responses', 'completions', 'embeddings'])
  for (const operation of [
    '/v1',
    '/v1/',
    '/v1/models/',
    '/v1/v1/chat/completions',
    '/v1/x/v1/chat/completions',
    '/v1/chat',
    '/v1/chat/completions/chatcmpl-1',
    '/v1/chat/completions/x/messages',
    '/v1/chat/completions.json',
    '/v1/completions/v1/chat/completions',
    '/v1/messages/batches',
    '/v1/messages/count_tokens/x',
    '/v1/messages/x',
    '/v1/responses/a/b',
    '/v1/responses/a%20b',
    '/v1/embeddings/x',
    '/v1/files/a/b',
    '/v1/files/..',
    '/v1/files/%zz',
    '/v1/files/chat%20completions',
    '/v1/model/info',
    '/v1/threads/t/messages',
  ]) {
    for (const rules of [chat, { metered, unmetered: 'open' } as const]) {
      t.equal(refused(operation, { rules })?.code, 'not_found', operation)
    }
  }
  for (const [method, operation] of [
    ['POST', '/v1/models'],
    ['POST', '/v1/models/small'],
    ['POST', '/v1/responses/resp_1'],
    ['POST', '/v1/responses/resp_1/input_items'],
    ['GET', '/v1/responses/resp_1/cancel'],
    ['DELETE', '/v1/models/small'],
  ] as const) {
    t.equal(refused(operation, { method })?.code, 'not_found', `${method} ${operation}`)
  }
})

test('an id must not look like the end of a metered path', async (t) => {
  const rules = pathRules(['chat', 'completions', 'messages'])
  for (const operation of ['/v1/files/messages', '/v1/models/completions', '/v1/files/Messages']) {
    t.equal(refused(operation, { method: 'GET', rules })?.code, 'not_found', operation)
    t.equal(refused(operation, { method: 'GET' }), undefined, operation)
  }
})

test('a query must not contain a metered path', async (t) => {
  for (const query of [
    '?/v1/chat/completions',
    '?x=/v1/chat/completions',
    '?x=/v1/Chat/Completions&y=1',
    '?/chat/completions',
    '?x=%2fv1%2fchat%2fcompletions',
    '?x=%252fv1%252fchat%252fcompletions',
    '?x=\\v1\\chat\\completions',
    '?x=/v1//chat/./completions',
    '?x=%ef%bc%8fv1/chat/completions',
  ]) {
    t.equal(refused(meterable.embeddings, { query })?.code, 'not_found', query)
    t.equal(refused(meterable.chat, { query })?.code, 'not_found', query)
  }
  for (const query of [
    '',
    '?',
    '?beta=true',
    '?after=file-1&limit=20&order=desc',
    '?x=/v1/models',
    '?a=%2F%zz',
    '?api-version=2024-10-21',
  ]) {
    t.equal(refused(meterable.embeddings, { query }), undefined, query)
  }
})

test('a query must not name another method', async (t) => {
  for (const query of [
    '?_method=GET',
    '?a=b&_method=POST',
    '?a=b;_method=POST',
    '?_METHOD=post',
    '?%5fmethod=POST',
    '?%255Fmeth%6fd=POST',
    '?_method%3dPOST',
    '?_method[]=POST',
    '?$httpMethod=POST',
    '?%24httpMethod=POST',
    '?x-http-method-override=POST',
    '?X_HTTP_METHOD_OVERRIDE=POST',
    '?x-method-override=POST',
    '?methodOverride=POST',
    '?_http_method=POST',
  ]) {
    t.strictSame(
      refused(meterable.embeddings, { query }),
      { code: 'not_found', detail: { about: 'override' } },
      query,
    )
  }
  for (const query of [
    '',
    '?',
    '?after=file-1',
    '?x=_method=GET',
    '?payment_method=x',
    '?method=x',
  ]) {
    t.equal(refused(meterable.embeddings, { query }), undefined, query)
  }
})

test('a query has no field of the body', async (t) => {
  for (const [query, field] of [
    ['?model=large', 'model'],
    ['?a=b&MODEL', 'model'],
    ['?a;stream=true', 'stream'],
    ['?stream_options[include_usage]=false', 'stream_options'],
    ['?stream.options=1', 'stream'],
    ['?+%73tream=true', 'stream'],
    ['?%2573tream=true', 'stream'],
    ['?streamOptions=x', 'stream_options'],
    ['?n=9', 'n'],
    ['?max-tokens=9', 'max_tokens'],
    ['?background=true', 'background'],
    ['?Deferred=1', 'deferred'],
    ['?extra-headers=x', 'extra_headers'],
    ['?models=1', 'models'],
    ['?provider_options=1', 'providerOptions'],
    ['?additional-drop-params=1', 'additional_drop_params'],
  ] as const) {
    for (const operation of [meterable.chat, meterable.responses, '/v1/rerank']) {
      const expected = { code: 'invalid_request', detail: { about: 'field', field } } as const
      t.strictSame(refuseSpelling(operation, query, chat), expected, query)
    }
    t.equal(refuseSpelling('/v1/realtime', query, chat), undefined, query)
  }
  for (const query of [
    '?beta=true',
    '?api-version=1',
    '?x=model',
    '?modelled=1',
    '?=model',
    '?a[n]=1',
  ]) {
    t.equal(refuseSpelling(meterable.chat, query, chat), undefined, query)
  }
})

test('listing is GET or HEAD of one path', async (t) => {
  t.ok(isListing('/v1/models', 'GET'))
  t.ok(isListing('/v1/models', 'HEAD'))
  t.notOk(isListing('/v1/models', 'POST'))
  t.notOk(isListing('/v1/models', ''))
  t.notOk(isListing('/v1/models/', 'GET'))
})

test('the refusal of a closed path names the counted ones', async (t) => {
  const rules = pathRules(['chat', 'messages'], 'closed')
  const open = ['/v1/chat/completions', '/v1/messages']
  const detail = { about: 'uncounted', operation: '/v1/responses', method: 'POST', open }
  t.strictSame(refused('/v1/responses', { rules }), { code: 'path_closed', detail })
})

/** All that is open beside POST to counted paths where uncounted ones are closed. */
const textless = [
  ...['/v1/models', '/v1/models/small', '/v1/models/ft:small:acme::7p', '/v1/models/llama3:8b'],
  ...['/v1/files', '/v1/files/file-1', '/v1/batches', '/v1/batches/batch_1'],
].flatMap((operation) => [`GET ${operation}`, `HEAD ${operation}`])
// As far as the path says, `compact` is an id.
textless.push('DELETE /v1/files/file-1')
textless.push('DELETE /v1/responses/resp_1', 'DELETE /v1/responses/compact')
textless.push('POST /v1/batches/batch_1/cancel')

test('closed leaves counted calls and what returns no text', async (t) => {
  const operations = [
    ...Object.keys(open),
    ...['/v1', '/v1/generate', '/v1/model/info', '/v1/anything', '/v1/detokenize', '/generate'],
    ...['/v1/models/m:generateContent', '/v1/models/m:streamGenerateContent', '/v1/Models'],
    ...['/v1/models/m:predict', '/v1/models/m:rawPredict', '/v1/models/models/m:embedContent'],
    ...['/v1/models/llama3:8b', '/v1/models/', '/v1/models;x', '/v1/models/a/b', '/v1/batches'],
    ...['/v1/responses/compact', '/v1/conversations', '/v1/conversations/conv_1/items'],
    ...['/v1/chat/completions/chatcmpl-1', '/v1/batches/batch_1', '/v1/images/variations'],
  ]
  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'post', 'QUERY', '']
  const metered = ['/v1/chat/completions', '/v1/responses']
  const rules = pathRules(['chat', 'responses'], 'closed')
  for (const allPaths of [true, false]) {
    const passed: string[] = []
    for (const operation of new Set(operations)) {
      for (const method of methods) {
        const refusal = refuseOperation(operation, method, rules, allPaths)
        if (refusal === undefined) passed.push(`${method} ${operation}`)
        else if (allPaths) t.equal(refusal.code, 'path_closed', `${method} ${operation}`)
      }
    }
    t.strictSame(passed.sort(), [...textless, ...metered.map((path) => `POST ${path}`)].sort())
  }
})

test('closed opens the count of tokens where messages are counted', async (t) => {
  const ask = (...names: MeterName[]) =>
    refuseOperation('/v1/messages/count_tokens', 'POST', pathRules(names, 'closed'))?.code
  t.equal(ask('chat'), 'path_closed')
  t.equal(ask('chat', 'messages'), undefined)
})

test('what closed would refuse is uncounted', async (t) => {
  const rules = pathRules(['chat', 'responses'])
  for (const [uncounted, method, operation] of [
    [false, 'GET', '/v1/models'],
    [false, 'POST', '/v1/chat/completions'],
    [false, 'DELETE', '/v1/responses/resp_1'],
    [true, 'GET', '/v1/responses/resp_1'],
    [true, 'GET', '/v1/responses/resp_1/input_items'],
    [true, 'GET', '/v1/files/file-1/content'],
    [true, 'POST', '/v1/embeddings'],
    [true, 'POST', '/v1/tokenize'],
    [true, 'POST', '/v1/models/m:generateContent'],
  ] as const) {
    t.equal(isUncounted(operation, method, rules), uncounted, `${method} ${operation}`)
  }
})

test('cancelling a response is counted where responses are', async (t) => {
  const operation = '/v1/responses/resp_1/cancel'
  t.ok(isMetered(operation, pathRules(['responses'])))
  t.notOk(isMetered(operation, chat))
  t.ok(isUncounted(operation, 'POST', chat))
})

test('a path or query that is too long is refused unread', async (t) => {
  const refusal = (part: string, max: number) => {
    return { code: 'invalid_request', detail: { about: 'long', part, max } }
  }
  const long = (start: string, length: number) => start.padEnd(length, 'a')
  const { embeddings } = meterable
  t.equal(refused(long('/v1/files/', 1_024)), undefined)
  t.strictSame(refused(long('/v1/files/', 1_025)), refusal('path', 1_024))
  t.equal(refused(embeddings, { query: long('?', 4_096) }), undefined)
  t.strictSame(refused(embeddings, { query: long('?', 4_097) }), refusal('query', 4_096))
})

test('a hostile path costs not much more than letters of its length', async (t) => {
  const ratioOf = (odd: string, bytes: number) => {
    const fill = (part: string) => part.repeat(Math.floor(bytes / Buffer.byteLength(part)))
    const check = (text: string) => () => {
      refused(`/v1/${text}`, { rules: withMessages })
      refused(meterable.embeddings, { query: `?/${text}`, rules: withMessages })
    }
    return costRatio(check(fill('\u4e00')), check(fill(odd)))
  }
  const marks = ['\u0315\u0300', '\u0345\u0315\u0300\u0323\u05b0', '%cc%95%cc%80', '\u0e33\u0eb3']
  const others = [
    '%25',
    '/',
    '/a',
    '/..',
    '../',
    ';',
    '%',
    '\\',
    '\n?',
    '\ufdfa',
    '\u0390',
    '/chat',
  ]
  for (const odd of [...marks, ...others]) {
    for (const bytes of [1_000, 4_000, 56_000]) {
      const ratio = ratioOf(odd, bytes)
      t.ok(ratio < 12, `${JSON.stringify(odd)}, ${bytes}: ${ratio.toFixed(1)} times`)
    }
  }
})

test('a mark in a path hides no operation', async (t) => {
  for (const operation of [
    '/v1/x\u0301/chat/completions',
    '/v1/\u0301/../chat/completions',
    '/v1/chat/completions;\u0301',
    '/\u0301/v1/chat%2fcompletions',
  ]) {
    t.equal(refused(operation)?.code, 'not_found', operation)
    t.equal(refuseSpelling(operation, '', chat)?.detail.about, 'spelling', operation)
  }
})

test('a model with all paths has no closed operations', async (t) => {
  const closed = pathRules(['chat'], 'closed')
  t.equal(refuseOperation('/v1/model/info', 'GET', pathRules(), true), undefined)
  t.equal(refuseOperation('/v1/anything', 'POST', pathRules(), true), undefined)
  t.equal(refuseOperation('/v1/anything', 'POST', closed, true)?.code, 'path_closed')
  t.equal(refuseOperation('/v1/anything', 'POST', pathRules())?.code, 'not_found')
})
