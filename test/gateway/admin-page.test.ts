import { createServer, type RequestListener } from 'node:http'
import { type Test, test } from 'tap'
import { readTaken } from '../../src/gateway/admin-page.ts'
import { freePorts } from '../support/free-ports.ts'
import { listenLocally } from '../support/listening.ts'

/** The address of an admin page that treats requests like this. */
async function adminPage(t: Test, treat: RequestListener) {
  return { host: '127.0.0.1', port: await listenLocally(t, createServer(treat)) }
}

test('an Envoy that is busy has not taken anything', async (t) => {
  const admin = await adminPage(t, () => {})
  t.strictSame(await readTaken(admin, 1_000), { version: undefined, warming: new Set() })
})

test('an Envoy that is not there is no answer', async (t) => {
  const [port = 0] = await freePorts(1)
  await t.rejects(readTaken({ host: '127.0.0.1', port }), { code: 'ECONNREFUSED' })
})

test('an admin page that fails is no answer', async (t) => {
  const admin = await adminPage(t, (_, response) => void response.writeHead(503).end())
  await t.rejects(readTaken(admin), /answered 503/)
})
