import { test } from 'tap'
import { chatPath, meteredPaths, misspelledPath, readTarget } from '../../src/core/target.ts'

test('a path names the model or leaves it out', async (t) => {
  for (const [path, modelKey, operation, query] of [
    ['/v1/chat/completions', undefined, '/v1/chat/completions', ''],
    ['/v1/chat/completions?a=b', undefined, '/v1/chat/completions', '?a=b'],
    ['/llm/small/v1/chat/completions', 'llm/small', '/v1/chat/completions', ''],
    ['/llm/small/v1/models', 'llm/small', '/v1/models', ''],
    // No namespace can be named v1, so this is one more unknown model.
    ['/v1/x/v1/embeddings', 'v1/x', '/v1/embeddings', ''],
    ['/llm/small/v1', 'llm/small', '/v1', ''],
    ['/llm/small/v1/', 'llm/small', '/v1/', ''],
    ['/llm/small/v1?x=/v1/models', 'llm/small', '/v1', '?x=/v1/models'],
    ['/llm/small/v1/files/a/b', 'llm/small', '/v1/files/a/b', ''],
    ['/llm/a.b/v1/embeddings?', 'llm/a.b', '/v1/embeddings', '?'],
  ] as const) {
    t.strictSame(readTarget(path), { modelKey, operation, query }, path)
  }
})

test('the query never decides', async (t) => {
  for (const query of [
    '?x=/v1/models',
    '?/v1/models',
    '?a?b=/v1/models',
    '?x=/a/b/v1/chat/completions',
  ]) {
    t.strictSame(readTarget(`/llm/small/v1/embeddings${query}`), {
      modelKey: 'llm/small',
      operation: '/v1/embeddings',
      query,
    })
    t.equal(readTarget(`/v1/completions${query}`)?.operation, '/v1/completions')
  }
})

test('other paths lead to no model', async (t) => {
  for (const path of [
    '',
    '/',
    '*',
    '/v1',
    '/v1/models',
    '/v1/',
    '/v1/llm/small/v1/models',
    '/v1?x=/v1/models',
    '/v1x/models',
    'v1/models',
    'llm/small/v1/models',
    '/llm',
    '/llm/small',
    '/llm/small/',
    '/llm/small/v2/models',
    '/llm/small/V1/models',
    '/llm/small/v1x',
    '/llm/small/models',
    '/llm?/small/v1/models',
    '/llm/small?/v1/models',
    '/?/llm/small/v1/models',
    '?/v1/models',
  ]) {
    t.equal(readTarget(path), undefined, path)
  }
})

test('odd names are taken as they stand', async (t) => {
  t.equal(readTarget('//small/v1/models')?.modelKey, '/small')
  t.equal(readTarget('///v1/models')?.modelKey, '/')
  t.equal(readTarget('/llm//v1/models')?.modelKey, 'llm/')
  t.equal(readTarget('/llm%2fsmall/x/v1/models')?.modelKey, 'llm%2fsmall/x')
})

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

const chatAlone = meteredPaths(false)
const withMessages = meteredPaths(true)

test('lenient spellings of the metered path are known', async (t) => {
  for (const operation of misspelled) {
    t.equal(misspelledPath(operation, chatAlone), chatPath, operation)
    t.equal(misspelledPath(operation, withMessages), chatPath, operation)
  }
})

test('lenient spellings of messages matter once metered', async (t) => {
  for (const operation of [
    '/v1/messages/',
    '/v1/Messages',
    '/V1/messages',
    '/v1//messages',
    '/v1/messages;a=b',
    '/v1/messages%3fbeta=true',
    '/v1/message%c5%bf',
    '/v1/messages/count_tokens/..',
    '/v1/x/..;/messages',
    '/v1/m%2565ssages',
    '/v1/messages.',
  ]) {
    t.equal(misspelledPath(operation, withMessages), '/v1/messages', operation)
    t.equal(misspelledPath(operation, chatAlone), undefined, operation)
  }
})

test('no other path is taken for it', async (t) => {
  for (const operation of [
    chatPath,
    '/v1',
    '/v1/',
    '/v1/models',
    '/v1/models/',
    '/v1/models/small',
    '/v1/completions',
    '/v1/Completions',
    '/v1/completions/',
    '/v1/embeddings',
    '/v1/messages',
    '/v1/responses',
    '/v1/responses/resp_1',
    '/v1/chat',
    '/v1/chat/',
    '/v1/chat/completion',
    '/v1/chat/completionss',
    '/v1/chat/completions/chatcmpl-1',
    '/v1/chat/completions/chatcmpl-1/messages',
    '/v1/chat/completions.json',
    '/v1/chat-completions',
    '/v1/x/chat/completions',
    '/v1/chat/x/completions',
    '/v1/chat/completions/../x',
    '/v1/files/chat%20completions',
    '/v1/files/100%',
    '/v1/files/%zz',
    '/v1/audio/speech',
    '/v1/images/generations',
    '/v1/v1/chat/completions',
    '/v1/chat/completions%',
    '/v1/chat/completions%2',
    '/v1/search?q=/v1/chat/completions',
    '/v1/threads/t/messages',
    '/v1/messages/count_tokens',
    '/v1/messages/batches',
    '/v1/message',
  ]) {
    t.equal(misspelledPath(operation, chatAlone), undefined, operation)
    t.equal(misspelledPath(operation, withMessages), undefined, operation)
  }
})

test('a hostile path is judged in no time', async (t) => {
  for (const operation of [
    `/v1/${'%25'.repeat(20_000)}`,
    `/v1/${'/'.repeat(60_000)}`,
    `/v1/${'../'.repeat(20_000)}`,
    `/v1/${';'.repeat(60_000)}`,
    `/v1/${'%'.repeat(60_000)}`,
    `/v1/${'?'.repeat(60_000)}`,
    `/v1/${'.'.repeat(30_000)}x${'.'.repeat(30_000)}`,
    `/v1/${'\n?'.repeat(30_000)}`,
  ]) {
    const before = process.cpuUsage().user
    t.equal(misspelledPath(operation, withMessages), undefined)
    t.ok(process.cpuUsage(undefined).user - before < 1_000_000, 'less than a second')
  }
})
