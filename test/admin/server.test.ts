import ajvCompiler from '@fastify/ajv-compiler'
import stringifyCompiler from '@fastify/fast-json-stringify-compiler'
import { Ajv, type AnySchema } from 'ajv'
import { pino } from 'pino'
import { test } from 'tap'
import { compileLater } from '../../src/admin/http/compile-later.ts'
import { type AdminDeps, buildAdmin } from '../../src/admin/server.ts'
import type { Authenticate } from '../../src/identity/authenticate.ts'
import { createKeyApi, sampleSnapshot } from '../support/key-api.ts'
import { refused } from '../support/refusals.ts'

const id = '0b5a3f3e-3c1e-4b6e-9d2a-6f3f1b2c4d5e'

test('health needs no credential (200)', async (t) => {
  const api = await createKeyApi(t)
  const answer = await api.ask('GET /health')
  t.equal(answer.statusCode, 200)
  t.strictSame(answer.json(), { status: 'healthy' })
  t.equal((await api.ask('HEAD /health')).body, '')
})

test('unknown paths are not found (404)', async (t) => {
  const api = await createKeyApi(t)
  const paths = [
    '/',
    '/nowhere',
    '/v1',
    '/v1/',
    '/v1/api-keys/a/b',
    '/v2/api-keys',
    '/V1/API-KEYS',
    '//v1/api-keys',
    '/v1/api-keys%2f',
    '/v1/api-keys;a=b',
    '/internal%2fv1/api-keys/validate',
    '/%00',
    '/livez',
    '/readyz',
    `/${'a'.repeat(3_000)}`,
    '/v1/api-keys/%ff',
    '/%',
  ]
  for (const path of paths) {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await api.external.inject({ method: method as 'GET', url: path })
      refused(t, answer, 404, 'not_found', `${method} ${path}`)
    }
    const options = await api.external.inject({ method: 'OPTIONS', url: path })
    t.strictSame([options.statusCode, options.body], [204, ''], `OPTIONS ${path}`)
    t.notOk(options.headers.allow)
  }
  const internal = await api.internal.inject({ method: 'GET', url: '/v1/api-keys' })
  refused(t, internal, 404, 'not_found')
})

test('known paths name their methods (405)', async (t) => {
  const api = await createKeyApi(t)
  const cases: readonly [string, readonly string[], string][] = [
    ['/health', ['POST', 'PUT', 'DELETE'], 'GET, HEAD, OPTIONS'],
    ['/v1/api-keys', ['GET', 'PUT', 'PATCH', 'DELETE'], 'OPTIONS, POST'],
    ['/v1/api-keys/search', ['GET', 'DELETE', 'PUT', 'PATCH'], 'OPTIONS, POST'],
    ['/v1/api-keys/bulk-revoke', ['GET', 'DELETE', 'PUT', 'PATCH'], 'OPTIONS, POST'],
    [`/v1/api-keys/${id}`, ['POST', 'PUT'], 'DELETE, GET, HEAD, OPTIONS, PATCH'],
    ['/internal/v1/api-keys/validate', ['GET', 'PUT', 'DELETE'], 'OPTIONS, POST'],
    ['/internal/v1/api-keys/cleanup', ['GET', 'PUT', 'DELETE'], 'OPTIONS, POST'],
  ]
  for (const [path, methods, allow] of cases) {
    for (const method of methods) {
      const answer = await api.ask(`${method} ${path}`, { payload: 'not JSON' })
      refused(t, answer, 405, 'method_not_allowed', `${method} ${path}`)
      t.equal(answer.headers.allow, allow, path)
    }
  }
  const list = await api.ask('GET /v1/api-keys?limit=5')
  t.match(
    list.json().error.message,
    /^This path does not .* POST \/v1\/api-keys\/search lists keys\.$/,
  )
})

test('OPTIONS names the methods of a path (204)', async (t) => {
  const api = await createKeyApi(t)
  const paths = ['/health', '/v1/api-keys', `/v1/api-keys/${id}`, '/v1/api-keys/search?x=1']
  for (const path of [...paths, '/internal/v1/api-keys/validate']) {
    const answer = await api.ask(`OPTIONS ${path}`)
    t.equal(answer.statusCode, 204, path)
    t.equal(answer.body, '')
    t.match(answer.headers.allow, /OPTIONS/)
    t.notMatch(Object.keys(answer.headers).join(), /access-control/)
  }
})

test('an escaped path is decoded', async (t) => {
  const api = await createKeyApi(t)
  const answer = await api.ask('POST /v1/api-keys/%73earch', { as: 'alice' })
  t.match(answer.json(), { object: 'list' })
})

test('HEAD is GET without a body', async (t) => {
  const api = await createKeyApi(t)
  const created = await api.createKey('alice')
  const path = `/v1/api-keys/${created.id}`
  const head = await api.ask(`HEAD ${path}`, { as: 'alice' })
  t.equal(head.statusCode, 200)
  t.equal(head.body, '')
  const { body } = await api.ask(`GET ${path}`, { as: 'alice' })
  t.equal(head.headers['content-length'], String(Buffer.byteLength(body)))
  t.equal((await api.ask(`HEAD ${path}`)).statusCode, 401)
  t.equal((await api.ask(`HEAD /v1/api-keys/${id}`, { as: 'alice' })).statusCode, 404)
})

test('invalid escapes and very long ids are not found (404)', async (t) => {
  const api = await createKeyApi(t)
  const ids = [
    '%',
    '%zz',
    '%c0%80',
    '%ff',
    'x'.repeat(10_000),
    '%20'.repeat(5_000),
    '😀'.repeat(400),
  ]
  for (const one of ids) {
    for (const method of ['GET', 'DELETE', 'HEAD']) {
      const url = `/v1/api-keys/${one}`
      const answer = await api.ask(`${method} ${url}`, { as: 'alice' })
      if (method === 'HEAD') t.equal(answer.statusCode, 404, url.slice(0, 40))
      else refused(t, answer, 404, 'not_found', url.slice(0, 40))
    }
  }
})

test('a query string changes nothing', async (t) => {
  const api = await createKeyApi(t)
  const created = await api.createKey('alice')
  for (const query of ['?', '?a=b', '?a[b]=c&a=d', '?%zz', `?${'q'.repeat(10_000)}`]) {
    const answer = await api.ask(`GET /v1/api-keys/${created.id}${query}`, { as: 'alice' })
    t.equal(answer.statusCode, 200, query.slice(0, 20))
  }
  const route = `DELETE /v1/api-keys/${created.id}?x=%00`
  t.equal((await api.ask(route, { as: 'alice', payload: 'ignored' })).statusCode, 200)
})

test('identity headers are ignored', async (t) => {
  const api = await createKeyApi(t)
  const { id: ofBob } = await api.createKey('bob')
  const headers = { 'x-maas-username': 'bob', 'x-maas-group': '["tollgate-admins"]' }
  refused(t, await api.ask(`GET /v1/api-keys/${ofBob}`, { as: 'alice', headers }), 404)
  refused(t, await api.ask(`DELETE /v1/api-keys/${ofBob}`, { headers }), 401)
})

test('a refused credential is reported, a missing one is asked for (RFC 6750)', async (t) => {
  const api = await createKeyApi(t)
  const asked = (headers: Record<string, string>) =>
    api.ask('POST /v1/api-keys/search', { headers }).then((answer) => {
      refused(t, answer, 401, 'credential_invalid')
      return answer.headers['www-authenticate']
    })
  t.equal(await asked({}), 'Bearer')
  for (const headers of [
    { authorization: 'Bearer wrong' },
    { authorization: 'Basic YTpi' },
    { 'x-api-key': 'alice-token' },
  ]) {
    t.match(await asked(headers as Record<string, string>), /error="invalid_token"/)
  }
})

test('only a trusted proxy determines the address of a caller', async (t) => {
  const seen: (string | undefined)[] = []
  const deps = { snapshot: () => sampleSnapshot, clock: Date.now, log: pino({ level: 'silent' }) }
  const ask = async (trustedProxies: readonly string[] | undefined, remoteAddress: string) => {
    const app = buildAdmin({
      ...deps,
      ...(trustedProxies && { trustedProxies }),
      authenticate: ((_presented, _now, source) => {
        seen.push(source?.())
        return null
      }) as Authenticate,
    } as unknown as AdminDeps)
    const headers = { 'x-forwarded-for': '192.0.2.66, 198.51.100.7' }
    await app.inject({ url: '/v1/models', remoteAddress, headers })
    await app.close()
    return seen.pop()
  }
  t.equal(
    await ask(['loopback'], '127.0.0.1'),
    '198.51.100.7',
    'the address that the proxy saw, not the one that it was sent',
  )
  t.equal(await ask(['loopback'], '::1'), '198.51.100.7')
  t.equal(await ask(['loopback'], '203.0.113.9'), '203.0.113.9')
  t.equal(await ask(['203.0.113.0/24', '198.51.100.7'], '203.0.113.9'), '192.0.2.66')
  t.equal(await ask(undefined, '127.0.0.1'), '127.0.0.1')
})

test('all schemas of routes compile', async (t) => {
  const schemas: AnySchema[] = []
  const collect =
    <T>(compile: (route: T) => unknown) =>
    (route: T & { schema: AnySchema }) => {
      schemas.push(route.schema)
      return compile(route)
    }
  const later = { ...compileLater }
  t.teardown(() => Object.assign(compileLater, later))
  const [buildValidator, buildSerializer] = [ajvCompiler(), stringifyCompiler()]
  Object.assign(compileLater, {
    buildValidator: (...given: [never]) => collect(buildValidator(...given)),
    buildSerializer: (...given: [never]) => collect(buildSerializer(...given)),
  })
  const api = await createKeyApi(t)
  await Promise.all([api.external.ready(), api.internal.ready()])
  const ajv = new Ajv()
  for (const schema of schemas) t.ok(ajv.validateSchema(schema), ajv.errorsText())
  t.ok(schemas.length > 100)
})

test('a schema is compiled at its first use', async (t) => {
  const { compile } = Ajv.prototype
  let compiled = 0
  Ajv.prototype.compile = function (this: Ajv, schema: AnySchema) {
    compiled += 1
    return compile.call(this, schema)
  } as typeof compile
  t.teardown(() => {
    Ajv.prototype.compile = compile
  })
  const { external, ask } = await createKeyApi(t)
  await external.ready()
  t.equal(compiled, 0)
  for (let i = 0; i < 2; i += 1) {
    await ask('POST /v1/api-keys', { as: 'alice', body: { name: 1 } })
    t.equal(compiled, 1)
  }
})
