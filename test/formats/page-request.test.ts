import { test } from 'tap'
import { isFromWebPage } from '../../src/formats/page-request.ts'

test('a browser says that a page asks', async (t) => {
  for (const boundTo of ['127.0.0.1', '0.0.0.0', '::', undefined]) {
    for (const site of ['cross-site', 'same-site', 'same-origin', 'x', '']) {
      t.ok(isFromWebPage({ host: 'localhost:1', 'sec-fetch-site': site }, boundTo), site)
    }
    t.ok(isFromWebPage({ host: 'localhost:1', origin: 'null' }, boundTo))
    t.notOk(isFromWebPage({ host: 'localhost:1', 'sec-fetch-site': 'none' }, boundTo))
  }
})

test('on loopback only names of this machine are its own', async (t) => {
  const own = [
    'localhost',
    'LOCALHOST:9464',
    '127.0.0.1:9464',
    '127.9.9.9',
    '[::1]:9464',
    undefined,
  ]
  const foreign = ['rebound.example', 'rebound.example:9464', 'localhost.example', 'x', '']
  for (const boundTo of ['127.0.0.1', '127.0.0.2', '::1', '::ffff:127.0.0.1']) {
    for (const host of own) t.notOk(isFromWebPage({ host }, boundTo), `${host} at ${boundTo}`)
    for (const host of foreign) t.ok(isFromWebPage({ host }, boundTo), `${host} at ${boundTo}`)
  }
  for (const boundTo of ['0.0.0.0', '::', '192.0.2.1', undefined]) {
    for (const host of [...own, ...foreign]) t.notOk(isFromWebPage({ host }, boundTo))
  }
})
