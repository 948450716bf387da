import { test } from 'tap'
import { parseTarget } from '../../src/operations/request-target.ts'

test('a path may name the model', async (t) => {
  for (const [path, modelKey, operation, query] of [
    ['/v1/chat/completions', undefined, '/v1/chat/completions', ''],
    ['/v1/chat/completions?a=b', undefined, '/v1/chat/completions', '?a=b'],
    ['/llm/small/v1/chat/completions', 'llm/small', '/v1/chat/completions', ''],
    ['/llm/small/v1/models', 'llm/small', '/v1/models', ''],
    // v1 cannot be a namespace, so this is an unknown model.
    ['/v1/x/v1/embeddings', 'v1/x', '/v1/embeddings', ''],
    ['/llm/small/v1', 'llm/small', '/v1', ''],
    ['/llm/small/v1/', 'llm/small', '/v1/', ''],
    ['/llm/small/v1?x=/v1/models', 'llm/small', '/v1', '?x=/v1/models'],
    ['/llm/small/v1/files/a/b', 'llm/small', '/v1/files/a/b', ''],
    ['/llm/a.b/v1/embeddings?', 'llm/a.b', '/v1/embeddings', '?'],
  ] as const) {
    t.strictSame(parseTarget(path), { modelKey, operation, query }, path)
  }
})

test('the query is ignored', async (t) => {
  for (const query of [
    '?x=/v1/models',
    '?/v1/models',
    '?a?b=/v1/models',
    '?x=/a/b/v1/chat/completions',
  ]) {
    t.strictSame(parseTarget(`/llm/small/v1/embeddings${query}`), {
      modelKey: 'llm/small',
      operation: '/v1/embeddings',
      query,
    })
    t.equal(parseTarget(`/v1/completions${query}`)?.operation, '/v1/completions')
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
    t.equal(parseTarget(path), undefined, path)
  }
})

test('unusual names are taken literally', async (t) => {
  t.equal(parseTarget('//small/v1/models')?.modelKey, '/small')
  t.equal(parseTarget('///v1/models')?.modelKey, '/')
  t.equal(parseTarget('/llm//v1/models')?.modelKey, 'llm/')
  t.equal(parseTarget('/llm%2fsmall/x/v1/models')?.modelKey, 'llm%2fsmall/x')
})
