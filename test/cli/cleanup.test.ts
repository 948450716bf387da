import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { runAt } from '../support/command.ts'
import { createKeyApi } from '../support/key-api.ts'
import { listenLocally } from '../support/listening.ts'
import { failing } from '../support/refusals.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

const run = (...args: readonly string[]) => runAt({}, 'cleanup', ...args)

type Around = NonNullable<Parameters<typeof createKeyApi>[1]>['around']

/** The internal API with one ephemeral key that is to be deleted. */
async function startApi(t: Test, around?: Around) {
  const api = await createKeyApi(t, { ...(around && { around }) })
  await api.createKey('alice', { ephemeral: true, expiresIn: '1m' })
  await api.createKey('alice', { expiresIn: '1m' })
  api.now += 32 * 60_000
  await api.internal.listen({ port: 0, host: '127.0.0.1' })
  const { port } = api.internal.server.address() as AddressInfo
  return { api, url: `http://127.0.0.1:${port}` }
}

async function answering(t: Test, listener: RequestListener): Promise<string> {
  return `http://127.0.0.1:${await listenLocally(t, createServer(listener))}`
}

test('deletes expired ephemeral keys and prints their number', async (t) => {
  const { url } = await startApi(t)
  const first = runTollgate(t, ['cleanup', url], {})
  t.equal(await first.ended, 0)
  t.equal(first.output(), 'Deleted 1 expired ephemeral keys.\n')
  t.match(await run(url), { status: 0, out: 'Deleted 0 expired ephemeral keys.', err: '' })
})

test('prints why the service refused, with status 1', async (t) => {
  const { url } = await startApi(t, failing('outage', 'deleteExpiredEphemeral'))
  const command = runTollgate(t, ['cleanup', url], {})
  t.equal(await command.ended, 1)
  t.match(command.output(), `${url} answered 503: `)
})

test('finds the listener of the settings, also at a Unix socket', async (t) => {
  const { api, url } = await startApi(t)
  const env = { INTERNAL_ADDRESS: url.replace('http://', '') }
  t.match(await runAt({ env }, 'cleanup'), { status: 0, out: /^Deleted 1/ })
  const socket = join(temporaryFolder(t), 'internal.sock')
  const server = createServer((request, response) =>
    api.internal.server.emit('request', request, response),
  )
  await new Promise<void>((settle) => server.listen(socket, settle))
  t.teardown(() => server.close())
  const listed = { INTERNAL_ADDRESS: `unix:${socket}` }
  t.match(await runAt({ env: listed }, 'cleanup'), { status: 0, out: /^Deleted 0/ })
  t.match(await run(`unix:${socket}`), { status: 0, out: /^Deleted 0/ })
  const none = await run('unix:/nonexistent/x.sock')
  t.match(none, { status: 3, err: 'unix:/nonexistent/x.sock cannot be reached (ENOENT).' })
})

test('finds the listener that npm start has recorded', async (t) => {
  const { url } = await startApi(t)
  const DATA_DIR = temporaryFolder(t)
  mkdirSync(join(DATA_DIR, 'run'))
  const recorded = JSON.stringify({ INTERNAL_ADDRESS: url.replace('http://', '') })
  writeFileSync(join(DATA_DIR, 'run', 'addresses.json'), recorded)
  t.match(await runAt({ env: { DATA_DIR } }, 'cleanup'), { status: 0, out: /^Deleted 1/ })
  const elsewhere = await runAt({ env: { DATA_DIR, INTERNAL_ADDRESS: '127.0.0.1:1' } }, 'cleanup')
  t.equal(elsewhere.status, 3, 'settings take precedence')
})

test('names a service that cannot be reached', async (t) => {
  t.match(await run('http://127.0.0.1:1'), {
    status: 3,
    err: 'http://127.0.0.1:1 cannot be reached (ECONNREFUSED).',
  })
})

test('waits for a service that starts', async (t) => {
  let asked = 0
  const url = await answering(t, (_request, response) => {
    asked += 1
    if (asked === 1) response.destroy()
    else if (asked === 2) response.writeHead(503).end('{"status":"not ready"}')
    else response.end('{"deletedCount":7}')
  })
  t.match(await run(url, '--wait', '30'), { status: 0, out: 'Deleted 7 expired ephemeral keys.' })
  t.equal(asked, 3)
  t.match(await run('http://127.0.0.1:1', '--wait', '2'), { status: 3, err: /ECONNREFUSED/ })
})

test('rejects the response of another server', async (t) => {
  for (const [body, reason] of [
    ['', /answered 200 and no count/],
    ['<html>', /answered 200 and no count/],
    ['null', /answered 200 and no count/],
    ['{"deletedCount":"7"}', /answered 200 and no count/],
    ['x'.repeat(1_000_000), /the answer is too long/],
  ] as const) {
    const url = await answering(t, (_request, response) => void response.end(body))
    t.match(await run(url), { status: 1, err: reason }, body.slice(0, 20))
  }
  const elsewhere = await answering(t, (_request, response) =>
    response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
  )
  t.match(await run(elsewhere), { status: 1, err: /answered 307/ })
})

test('sends a client certificate if the service requires one', { skip: noOpenssl }, async (t) => {
  const { api } = await startApi(t)
  const [own, client] = [makeCertificate(t), makeCertificate(t)]
  const server = createTlsServer(
    { cert: own.cert, key: own.key, ca: client.cert, requestCert: true },
    (request, response) => void api.internal.server.emit('request', request, response),
  )
  const url = `https://127.0.0.1:${await listenLocally(t, server)}`
  const known = ['--ca', own.path]
  t.match(await run(url), { status: 3, err: /cannot be reached \(DEPTH_ZERO_SELF_SIGNED_CERT\)/ })
  t.match(await run(url, ...known), { status: 3, err: /cannot be reached/ })
  const mine = ['--cert', client.path, '--key', client.keyPath]
  t.match(await run(url, ...known, ...mine), { status: 0, out: /Deleted 1 / })
  t.match(await run(url, '--ca', '/nowhere.pem'), {
    status: 1,
    err: '--ca: /nowhere.pem cannot be read (ENOENT).',
  })
})

test('invalid arguments say where help is', async (t) => {
  for (const args of [
    ['here'],
    ['ftp://127.0.0.1'],
    ['http://127.0.0.1/internal'],
    ['http://user@127.0.0.1'],
    ['http://127.0.0.1', 'http://127.0.0.2'],
    ['http://127.0.0.1', '--ca', 'x'],
    ['https://127.0.0.1', '--cert', 'x'],
    ['--wait', 'long'],
    ['--all'],
  ]) {
    const { status, err } = await run(...args)
    t.equal(status, 2, args.join(' '))
    t.match(err, / See tollgate cleanup --help\.$/)
  }
})
