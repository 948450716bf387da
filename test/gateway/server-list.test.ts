import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'tap'
import type { Secret } from '../../src/gateway/secret-location.ts'
import { createSecretReader } from '../../src/gateway/secret-source.ts'
import { modelServerId, requestServedModels } from '../../src/gateway/server-list.ts'
import type { ModelRef } from '../../src/kinds/resources.ts'
import { noOpenssl, selfSigned } from '../support/certificates.ts'
import { modelRef, resourceOf } from '../support/documents.ts'
import { listOf, startAnswering, startScripted } from '../support/list-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const refOf = (spec: object, namespace?: string) =>
  resourceOf(modelRef('m', spec, namespace)) as ModelRef
const from = (secretsDir?: string) => ({ readSecret: createSecretReader(secretsDir) })
const options = (limitMs = 20_000) => ({
  ...from(),
  caFile: undefined,
  hopMark: 'hop-of-this-test',
  signal: AbortSignal.timeout(limitMs),
})

const names = (count: number) => Array.from({ length: count }, (_, i) => `name-of-a-model-${i}`)

test('sends the same request as Envoy', async (t) => {
  const secretsDir = temporaryFolder(t, { llm: { key: 'sk-of-the-server\n' } })
  const server = await startAnswering(t, 200, listOf('a'))
  const spec = { backendUrl: `${server.url}/base/`, credential: { header: 'x-auth', file: 'key' } }
  t.match(await requestServedModels(refOf(spec), { ...options(), ...from(secretsDir) }), [
    { id: 'a' },
  ])
  const headers = { 'x-auth': 'sk-of-the-server', 'user-agent': 'tollgate' }
  t.match(server.asked, [{ path: '/base/v1/models', headers }])
  await t.rejects(requestServedModels(refOf(spec), options()), { message: /SECRETS_DIR/ })
  t.equal(server.asked.length, 1, 'no request without the credential')
})

test('the credential may be a Secret of the cluster', async (t) => {
  const server = await startAnswering(t, 200, listOf('a'))
  const secretRef = { name: 'provider', key: 'api-key' }
  const asked: Secret[] = []
  const readSecret = async (secret: Secret) => {
    asked.push(secret)
    return { text: 'Bearer sk-of-the-cluster' }
  }
  const ref = refOf({ backendUrl: server.url, credential: { secretRef } })
  t.match(await requestServedModels(ref, { ...options(), readSecret }), [{ id: 'a' }])
  t.match(asked, [{ namespace: 'llm', secretRef }])
  t.match(server.asked, [{ headers: { authorization: 'Bearer sk-of-the-cluster' } }])
})

test('a list may be bare, or in models', async (t) => {
  for (const body of ['[{"id":"a"}]', '{"models":[{"name":"a"}]}', '{"models":[{"model":"a"}]}']) {
    const { url } = await startAnswering(t, 200, body)
    t.match(await requestServedModels(refOf({ backendUrl: url }), options()), [{ id: 'a' }], body)
  }
  const { url } = await startAnswering(t, 200, '[]')
  t.same(await requestServedModels(refOf({ backendUrl: url }), options()), [])
})

test('long lists share an allowance, and short ones need none', async (t) => {
  const { url: long } = await startAnswering(t, 200, listOf(...names(50_000)))
  const { url: short } = await startAnswering(t, 200, listOf('a'))
  const allowance = { left: 1_000_000 }
  const ask = (backendUrl: string) =>
    requestServedModels(refOf({ backendUrl }), { ...options(), allowance })
  await t.rejects(ask(long), { message: /others are being read/ })
  t.equal(allowance.left, 1_000_000, 'it is given back')
  allowance.left = 0
  t.match(await ask(short), [{ id: 'a' }])
  allowance.left = 4_000_000
  t.equal((await ask(long)).length, 10_000)
  t.equal(allowance.left, 4_000_000)
})

test('anything but a list of models is an error', async (t) => {
  for (const status of [301, 401, 404, 500]) {
    const { url } = await startAnswering(t, status, listOf('a'))
    await t.rejects(requestServedModels(refOf({ backendUrl: url }), options()), {
      message: `${status}`,
    })
  }
  for (const body of ['<html>', '', '"a"', '{"data":[{"id":', `"${'x'.repeat(5_000_000)}"`]) {
    const { url } = await startAnswering(t, 200, body)
    await t.rejects(requestServedModels(refOf({ backendUrl: url }), options()), body.slice(0, 9))
  }
  const silent = await startScripted(t, () => {})
  const trickling = await startScripted(t, (_, response) => void response.write('{'))
  for (const { url } of [silent, trickling]) {
    await t.rejects(requestServedModels(refOf({ backendUrl: url }), options(200)))
  }
  await t.rejects(requestServedModels(refOf({ backendUrl: 'http://127.0.0.1:9' }), options()))
})

test('verifies the certificate of the server', { skip: noOpenssl }, async (t) => {
  const secretsDir = temporaryFolder(t, { llm: {}, made: {} })
  for (const folder of ['llm', 'made']) mkdirSync(join(secretsDir, folder), { recursive: true })
  const certificate = selfSigned(join(secretsDir, 'made'), 'IP:127.0.0.1')
  writeFileSync(join(secretsDir, 'llm', 'ca.pem'), certificate.cert)
  const server = https.createServer(certificate, (_, response) => response.end('{"data":[]}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const backendUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  await t.rejects(requestServedModels(refOf({ backendUrl }), { ...options(), ...from(secretsDir) }))
  const vouched = refOf({ backendUrl, caFile: 'ca.pem' })
  t.same(await requestServedModels(vouched, { ...options(), ...from(secretsDir) }), [])
  const caFile = join(secretsDir, 'llm', 'ca.pem')
  t.same(await requestServedModels(refOf({ backendUrl }), { ...options(), caFile }), [])
})

test('a server is identified by its address and credential', async (t) => {
  const [a, b] = ['http://a:80', 'http://b:80'].map((backendUrl) => ({ backendUrl }))
  const credential = { credential: { file: 'k' } }
  t.equal(modelServerId(refOf(a!)), modelServerId(refOf(a!, 'other')))
  t.not(modelServerId(refOf(a!)), modelServerId(refOf(b!)))
  t.not(modelServerId(refOf(a!)), modelServerId(refOf({ ...a, ...credential })))
  t.not(
    modelServerId(refOf({ ...a, ...credential })),
    modelServerId(refOf({ ...a, ...credential }, 'other')),
    'the file of another namespace is another credential',
  )
})
