import { test } from 'tap'
import { createKeyApi } from '../../support/key-api.ts'

const ask = { method: 'POST', url: '/internal/v1/drain' } as const

test('only this machine may drain the gateway', async (t) => {
  const { internal, external } = await createKeyApi(t)
  for (const remoteAddress of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
    const answer = await internal.inject({ ...ask, remoteAddress, payload: 'whatever' })
    t.strictSame([answer.statusCode, answer.json().status], [200, 'drained'], remoteAddress)
  }
  for (const remoteAddress of [
    '10.0.0.7',
    '127.0.0.6',
    '::ffff:10.0.0.7',
    '2001:db8::1',
    '::127.0.0.1',
  ]) {
    const headers = { 'x-forwarded-for': '127.0.0.1' }
    const answer = await internal.inject({ ...ask, remoteAddress, headers })
    t.strictSame([answer.statusCode, answer.json().error.code], [403, 'local_only'], remoteAddress)
  }
  t.equal((await external.inject(ask)).statusCode, 404)
})

test('a page in a browser of this machine may not call the internal listener', async (t) => {
  const { internal } = await createKeyApi(t)
  for (const origin of ['https://evil.example', 'null']) {
    for (const [method, path] of [
      ['POST', 'drain'],
      ['POST', 'api-keys/cleanup'],
      ['GET', 'resources'],
    ] as const) {
      const url = `/internal/v1/${path}`
      const answer = await internal.inject({
        ...{ method, url, headers: { origin } },
        remoteAddress: '127.0.0.1',
      })
      t.strictSame([answer.statusCode, answer.json().error.code], [403, 'local_only'], path)
    }
  }
})

test('the trail records who asked to drain', async (t) => {
  const { internal, audited } = await createKeyApi(t)
  await internal.inject({ ...ask, remoteAddress: '127.0.0.1' })
  await internal.inject({ ...ask, remoteAddress: '10.0.0.7' })
  const drain = { action: 'gateway.drain', actor: { source: 'internal' } }
  t.match(audited, [
    { ...drain, outcome: 'success', status: 200, address: '127.0.0.1' },
    { ...drain, outcome: 'refused', status: 403, address: '10.0.0.7' },
  ])
})
