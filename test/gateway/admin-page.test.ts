import { createServer, type RequestListener } from 'node:http'
import { type Test, test } from 'tap'
import { readLoadedClusters } from '../../src/gateway/admin-page.ts'
import { freePorts } from '../support/free-ports.ts'
import { listenLocally } from '../support/listening.ts'

/** Starts an admin page with this handler; returns its address. */
async function adminPage(t: Test, treat: RequestListener) {
  return { host: '127.0.0.1', port: await listenLocally(t, createServer(treat)) }
}

test('a busy Envoy has loaded no clusters yet', async (t) => {
  const admin = await adminPage(t, () => {})
  t.strictSame(await readLoadedClusters(admin, [], 1_000), {
    version: undefined,
    warming: new Set(),
    resolved: new Set(),
  })
})

test('rejects if Envoy is not running', async (t) => {
  const [port = 0] = await freePorts(1)
  await t.rejects(readLoadedClusters({ host: '127.0.0.1', port }), { code: 'ECONNREFUSED' })
})

test('rejects if the admin page fails', async (t) => {
  const admin = await adminPage(t, (_, response) => void response.writeHead(503).end())
  await t.rejects(readLoadedClusters(admin), /answered 503/)
})
