import { test } from 'tap'
import type { ModelServer } from '../../../../src/kinds/resources.ts'
import { modelRef, resourceOf } from '../../../support/documents.ts'

function serverOf(spec: object): ModelServer {
  const resource = resourceOf(modelRef('small', spec))
  if (resource.kind !== 'ModelRef') throw new Error('this is no ModelRef')
  return resource.server
}

test('a ModelRef need not describe its server', async (t) => {
  t.strictSame(serverOf({}), {
    credential: undefined,
    upstreamModel: undefined,
    caFile: undefined,
    connectMs: 5_000,
    idleMs: undefined,
    answerMs: undefined,
    retries: 2,
    allPaths: false,
  })
})

test('all fields are read', async (t) => {
  const server = serverOf({
    credential: { header: 'Api-Key', file: 'provider.key' },
    upstreamModel: 'org/Model-7B:latest',
    caFile: 'ca.pem',
    timeouts: { connect: '500ms', idle: '60s', answer: '10m' },
    retries: 0,
    paths: 'all',
  })
  t.strictSame(server, {
    credential: { header: 'api-key', prefix: '', file: 'provider.key', secretRef: undefined },
    upstreamModel: 'org/Model-7B:latest',
    caFile: 'ca.pem',
    connectMs: 500,
    idleMs: 60_000,
    answerMs: 600_000,
    retries: 0,
    allPaths: true,
  })
})

test('durations are whole milliseconds, which Envoy reads', async (t) => {
  // As doubles 16200.000000000002, 3960000.0000000005 and 2009.9999999999998 ms.
  for (const [written, ms] of [
    ['0.27m', 16_200],
    ['2.01s', 2_010],
    ['16.0004s', 16_000],
  ] as const) {
    t.equal(serverOf({ timeouts: { connect: written } }).connectMs, ms, written)
  }
  t.equal(serverOf({ timeouts: { answer: '1.1h' } }).answerMs, 3_960_000)
})

test('an IP address has no retries by default', async (t) => {
  for (const host of ['127.0.0.1', '[::1]']) {
    t.equal(serverOf({ backendUrl: `http://${host}:80` }).retries, 0)
    t.equal(serverOf({ backendUrl: `http://${host}:80`, retries: 1 }).retries, 1)
  }
  t.equal(serverOf({ backendUrl: 'http://1.example' }).retries, 2)
})

test('the authorization header has the prefix Bearer by default', async (t) => {
  const file = 'key'
  t.equal(serverOf({ credential: { file } }).credential?.prefix, 'Bearer ')
  t.equal(serverOf({ credential: { file, prefix: '' } }).credential?.prefix, '')
  t.equal(serverOf({ credential: { file, prefix: 'Token ' } }).credential?.prefix, 'Token ')
})

test('a credential may be in a Secret', async (t) => {
  const secretRef = { name: 'provider', key: 'token' }
  t.match(serverOf({ credential: { secretRef } }).credential, { file: undefined, secretRef })
})

test('an invalid server is refused', async (t) => {
  const file = 'key'
  for (const spec of [
    { credential: {} },
    { credential: { file, secretRef: { name: 'provider', key: 'token' } } },
    { credential: { secretRef: {} } },
    { credential: { secretRef: { name: 'a/b', key: 'token' } } },
    { credential: { secretRef: { name: 'provider', key: '../token' } } },
    { credential: { secretRef: 'provider' } },
    { credential: 'key' },
    ...['../key', 'a/b', '..', '.', 'a\\b', '', 'a\0b', '/etc/passwd'].map((name) => ({
      credential: { file: name },
    })),
    ...['host', 'Content-Length', 'transfer-encoding', 'x-tollgate-path', ':path', 'a b', ''].map(
      (header) => ({ credential: { file, header } }),
    ),
    { credential: { file, prefix: 'a\nb' } },
    { caFile: '../ca.pem' },
    ...['', 'a"b', 'a\\b', 'a b', 'a\nb', 'ä'].map((upstreamModel) => ({ upstreamModel })),
    ...['0s', '5', 'soon', '2h', 5].map((connect) => ({ timeouts: { connect } })),
    { timeouts: { idle: '7s' } },
    { timeouts: { idle: 'x' } },
    { timeouts: [] },
    { retries: -1 },
    { retries: 6 },
    { paths: 'some' },
  ]) {
    t.throws(() => serverOf(spec), JSON.stringify(spec))
  }
})
