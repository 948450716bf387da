import { gatewayTests, models, subscriptions } from '../support/gateway.ts'
import { neverFree } from '../support/never-free.ts'
import { sendRaw, toBytes } from '../support/raw-http.ts'

const test = gatewayTests({
  resources: (backendUrl) => [...models(backendUrl), ...subscriptions({ one: 1 })],
})

const body = '{"model":"sim","stream":true,"messages":[]}'

/** Spellings of a path below the model, with their status; 200 is also counted. */
const spellings: Readonly<Record<string, number>> = {
  '/v1/chat/completions': 200,
  '/v1/chat/completions?x=1': 200,
  '/v1/chat/completions?/v1/models': 200,
  '/v1/chat/completions?': 200,
  '//v1/chat/completions': 200,
  '/v1//chat///completions': 200,
  '/v1/chat/completion%73': 200,
  '/v1/%63hat/completions': 200,
  '/%76%31/chat/completions': 200,
  '/v1/chat\\completions': 200,
  '/v1/chat/./completions': 200,
  '/v1/x/../chat/completions': 200,
  '/v1/x/%2e%2e/chat/completions': 200,
  '/v1/x/..;/chat/completions': 200,
  '/v1/chat%2fcompletions': 400,
  '/v1/chat%2Fcompletions': 400,
  '/v1/chat%5ccompletions': 400,
  '/v1/chat/completions%00': 400,
  '/v1/chat/completions#x': 400,
  '/v1/chat/completion\u00c5\u00bf': 400,
  '/v1/chat/completions?model=large': 400,
  '/v1/chat/completions?a=b&Stream=false': 400,
  '/v1/chat/completions.json': 404,
  '/v1/chat/completions%2eJson;x': 404,
  '/v1/chat/completions/': 404,
  '/v1/chat/completions/.': 404,
  '/v1/chat/completions/x/..': 404,
  '/v1/CHAT/completions': 404,
  '/v1/Chat/Completions/': 404,
  '/V1/chat/completions': 404,
  '/v1/chat/completions;x=1': 404,
  '/v1/chat;x/completions': 404,
  '/v1;x/chat/completions': 404,
  '/v1/chat/completions/;x': 404,
  '/v1/;/chat/completions': 404,
  '/v1/chat/completions%3f': 404,
  '/v1/chat/completions%3Fx=1': 404,
  '/v1/chat/completions%23': 404,
  '/v1/chat/completions%23x': 404,
  '/v1/chat/completions%3bx': 404,
  '/v1/chat/completions%20': 404,
  '/v1/chat/completions%09': 404,
  '/v1/chat/completions%0a': 404,
  '/v1/chat/completions%0d%0a': 404,
  '/v1/%20chat/completions': 404,
  '/v1/chat/completions%c2%a0': 404,
  '/v1/chat/completions%e2%80%8b': 404,
  '/v1/chat/completions.': 404,
  '/v1/chat/completions%2e': 404,
  '/v1/chat/completions...': 404,
  '/v1/chat/completion%c5%bf': 404,
  '/v1/chat/complet%c4%b1ons': 404,
  '/v1/chat/completion%2573': 404,
  '/v1/chat%252fcompletions': 404,
  '/v1/chat%255ccompletions': 404,
  '/v1/x/%252e%252e/chat/completions': 404,
  '/v1/chat/completions%252f': 404,
}

test("no spelling of a model's path avoids counting", async (t, gateway) => {
  for (const [spelling, status] of Object.entries(spellings)) {
    await neverFree(t, gateway, status, { path: `/llm/sim${spelling}`, body })
  }
})

test('no spelling of a shared path avoids counting', async (t, gateway) => {
  for (const [spelling, status] of Object.entries(spellings)) {
    await neverFree(t, gateway, status, { path: spelling, body })
  }
})

test('no spelling of the model avoids counting', async (t, gateway) => {
  for (const [path, status] of Object.entries({
    '//llm/sim/v1/chat/completions': 200,
    '/llm//sim/v1/chat/completions': 200,
    '/ll%6d/%73im/v1/chat/completions': 200,
    '/llm/x/../sim/v1/chat/completions': 200,
    '/x/../llm/sim/v1/chat/completions': 200,
    'http://elsewhere/llm/sim/v1/chat/completions': 200,
    '/llm%2fsim/v1/chat/completions': 400,
    '*': 400,
    'llm/sim/v1/chat/completions': 400,
    '/LLM/sim/v1/chat/completions': 403,
    '/v1/llm/v1/chat/completions': 403,
    '/llm/sim%20/v1/chat/completions': 403,
    '/llm/sim;x/v1/chat/completions': 403,
    '/llm/sim%3f/v1/chat/completions': 403,
    '/llm/sim%250a/v1/chat/completions': 403,
    '/sim/v1/chat/completions': 404,
    '/x/llm/sim/v1/chat/completions': 404,
    '/llm/sim/v1x/chat/completions': 404,
    '/llm/sim/chat/completions': 404,
    '/llm/sim': 404,
    '/maas-api/v1/chat/completions': 404,
    '/maas-api/llm/sim/v1/chat/completions': 404,
  })) {
    await neverFree(t, gateway, status, { path, body })
  }
})

test('no method avoids counting', async (t, gateway) => {
  for (const path of ['/llm/sim/v1/chat/completions', '/v1/chat/completions']) {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'CONNECT']) {
      // Where the path names the model, these are lists of what is stored before they are bodies.
      const status = path.startsWith('/llm') && method !== 'CONNECT' ? 403 : 400
      await neverFree(t, gateway, status, { method, path, body }, `${method} ${path}`)
    }
    for (const method of ['PUT', 'PATCH', 'DELETE', 'TRACE', 'PURGE']) {
      const { key } = await gateway.mint({ subscription: 'one' })
      const headers = [`authorization: Bearer ${key}`]
      const request = toBytes({ method, path, headers, body })
      t.equal((await sendRaw(gateway.port, request)).status, 403, `${method} is closed`)
    }
  }
})

test('no path leads to the internal API', async (t, gateway) => {
  const { key } = await gateway.mint({ subscription: 'one' })
  for (const path of [
    '/internal',
    '/internal/',
    '/internal/v1/api-keys/validate',
    '/Internal/v1/api-keys/validate',
    '/internal/a/v1/b',
    '//internal/v1/x',
    '/%69nternal/v1/x',
    '/internal;/v1/x',
    '/internal;x/a/v1/b',
    '/internal%2fv1/x',
    '/x/../internal/v1/x',
    '/maas-api/internal/v1/api-keys/validate',
    '/maas-api//internal/v1/x',
    '/maas-api/%69nternal/v1/x',
    '/maas-api/INTERNAL/v1/x',
    '/maas-api/internal%2fv1',
    '/maas-api/%2e%2e/internal/v1/x',
    '/maas-api/;/internal/v1/x',
    '/maas-api;x/internal/v1/x',
    '/maas-api/v1/models/../../internal/v1/x',
    '/maas-api/v1/models/..;/..;/internal/v1/x',
    '/maas-api/v1/models/..%5c..%5cinternal/v1/x',
    '/v1/models/%252e%252e/%252e%252e/internal/v1/api-keys/validate',
    'http://gateway/internal/v1/x',
    '/livez',
    '/readyz',
    '/metrics',
  ]) {
    const headers = [`authorization: Bearer ${key}`]
    const { status } = await sendRaw(gateway.port, toBytes({ path, headers, body }))
    const isPlain = /^(\/maas-api)?\/+internal(\/|%2f)/i.test(path)
    const refused = isPlain ? [404] : path.startsWith('/maas-api;') ? [403] : [400, 404]
    t.ok(refused.includes(status), `${path} is ${status}`)
  }
})
