import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, renameSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import tls, { type ConnectionOptions } from 'node:tls'
import root, { type Test } from 'tap'
import {
  checkTls,
  type ListenerTls,
  openListenerTls,
  type ServerTls,
  type TlsSettings,
} from '../../src/tls/listener-tls.ts'
import { type Certificate, makeCertificate, noOpenssl } from '../support/certificates.ts'
import { poll } from '../support/poll.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = noOpenssl

interface World {
  readonly settings: TlsSettings
  readonly tls: ListenerTls
  readonly problems: readonly string[]
  put(name: 'cert' | 'key' | 'ca', path: string): void
}

function open(t: Test, first: Certificate, ca?: Certificate): World {
  const folder = temporaryFolder(t)
  const at = (name: string) => join(folder, `${name}.pem`)
  const put = (name: string, path: string) => {
    copyFileSync(path, at('fresh'))
    renameSync(at('fresh'), at(name))
  }
  put('cert', first.path)
  put('key', first.keyPath)
  if (ca) put('ca', ca.path)
  const settings: TlsSettings = {
    certFile: at('cert'),
    keyFile: at('key'),
    minVersion: '1.2',
    ...(ca && { clientCaFile: at('ca') }),
  }
  const problems: string[] = []
  const listenerTls = openListenerTls(settings, {
    onRead() {},
    onProblem: (problem) => problems.push(problem),
    everyMs: 10,
  })
  t.teardown(() => listenerTls.close())
  return { settings, tls: listenerTls, problems, put }
}

/** An echo server with TLS. */
async function listen(t: Test, { options, follow }: ServerTls): Promise<number> {
  const sockets = new Set<tls.TLSSocket>()
  const server = tls.createServer(options, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.pipe(socket)
  })
  follow(server)
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** A connection after its first echo, or the code of the error. */
async function connect(t: Test, port: number, options: ConnectionOptions) {
  const socket = tls.connect({ port, host: '127.0.0.1', ...options })
  t.teardown(() => socket.destroy())
  return await new Promise<tls.TLSSocket | string>((settle) => {
    socket.on('error', (error: NodeJS.ErrnoException) => settle(error.code ?? error.message))
    socket.on('close', () => settle('closed'))
    socket.once('data', () => settle(socket))
    socket.write('hello')
  })
}

async function serial(t: Test, port: number, ca: string[]): Promise<string | undefined> {
  const socket = await connect(t, port, { ca })
  return typeof socket === 'string' ? undefined : socket.getPeerCertificate().serialNumber
}

root.test('a new certificate is used for the next connection', { skip }, async (t) => {
  const [first, second] = [makeCertificate(t), makeCertificate(t)]
  const ca = [first.cert, second.cert]
  const { tls: own, put, problems } = open(t, first)
  const port = await listen(t, own.plain)
  const kept = await connect(t, port, { ca })
  if (typeof kept === 'string') throw new Error(kept)
  const before = await serial(t, port, ca)
  t.ok(before)

  put('cert', second.path)
  await poll(() => problems.length > 0, 'a certificate that does not match its key is reported')
  t.match(problems, [/^TLS_KEY_FILE: .* is not the key of /])
  t.equal(await serial(t, port, ca), before, 'and is not used')
  put('key', second.keyPath)
  await poll(async () => (await serial(t, port, ca)) !== before, 'the new certificate is in use')
  kept.write('still here')
  const [echo] = await once(kept, 'data')
  t.equal(String(echo), 'still here', 'the old connection still works')
  t.equal(problems.length, 1)
})

root.test('a server created later has the newest certificate', { skip }, async (t) => {
  const [first, second] = [makeCertificate(t), makeCertificate(t)]
  const { tls: own, put } = open(t, first)
  put('cert', second.path)
  put('key', second.keyPath)
  await poll(async () => {
    const port = await listen(t, own.plain)
    return (await serial(t, port, [second.cert])) !== undefined
  }, 'the newest certificate is in use')
})

root.test('a certificate that could not be read is read later', { skip }, async (t) => {
  const [first, second] = [makeCertificate(t), makeCertificate(t)]
  const folder = temporaryFolder(t)
  for (const [name, path] of [
    ['cert', first.path],
    ['key', first.keyPath],
    ['cert.new', second.path],
    ['key.new', second.keyPath],
  ] as const)
    copyFileSync(path, join(folder, name))
  const script = `
    import { closeSync, openSync, renameSync } from 'node:fs'
    import { setTimeout as delay } from 'node:timers/promises'
    import { openListenerTls } from '${new URL('../../src/tls/listener-tls.ts', import.meta.url)}'
    process.chdir(process.argv[1])
    let reads = 0
    const problems = []
    const settings = { certFile: 'cert', keyFile: 'key', minVersion: '1.2' }
    const own = openListenerTls(settings, {
      onRead: () => { reads += 1 },
      onProblem: (problem) => problems.push(problem),
      everyMs: 10,
    })
    await delay(100)
    const descriptors = []
    try {
      while (true) descriptors.push(openSync('/dev/null'))
    } catch {}
    for (const name of ['cert', 'key']) renameSync(name + '.new', name)
    while (problems.length === 0) await delay(10)
    for (const each of descriptors) closeSync(each)
    const giveUpAt = performance.now() + 5_000
    while (reads === 1 && performance.now() < giveUpAt) await delay(10)
    console.log(reads, problems.length)
    own.close()`
  const run = 'ulimit -n 64; exec "$0" --input-type=module -e "$1" "$2"'
  const { stdout, stderr } = spawnSync('/bin/sh', ['-c', run, process.execPath, script, folder], {
    encoding: 'utf8',
    timeout: 30_000,
  })
  t.equal(stdout, '2 1\n', stderr)
})

root.test('authorities for client certificates are read again too', { skip }, async (t) => {
  const [own, ann, bob] = [makeCertificate(t), makeCertificate(t), makeCertificate(t)]
  const { tls: listeners, put, problems } = open(t, own, ann)
  const port = await listen(t, listeners.demanding)
  const ca = [own.cert]
  const as = async (who: Certificate | undefined) =>
    typeof (await connect(t, port, { ca, ...(who && { key: who.key, cert: who.cert }) })) !==
    'string'
  t.equal(await as(ann), true)
  t.equal(await as(bob), false)
  t.equal(await as(undefined), false)
  put('ca', bob.path)
  await poll(() => as(bob), 'the client of the new authority is accepted')
  t.equal(await as(ann), false)
  put('ca', own.keyPath)
  await poll(() => problems.length > 0, 'a file without certificates is reported')
  t.match(problems, [/^TLS_CLIENT_CA_FILE: .* holds no certificate/])
  t.equal(await as(bob), true)
  t.equal(await as(ann), false)
})

root.test('old TLS, plain text and silence are refused', { skip }, async (t) => {
  const own = makeCertificate(t)
  const ca = [own.cert]
  const { tls: listeners, settings } = open(t, own)
  const port = await listen(t, listeners.plain)
  t.type(
    await connect(t, port, { ca, minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' }),
    tls.TLSSocket,
  )
  const old = {
    ca,
    minVersion: 'TLSv1.1',
    maxVersion: 'TLSv1.1',
    ciphers: 'ALL:@SECLEVEL=0',
  } as const
  t.type(await connect(t, port, old), 'string')
  const strict = openListenerTls(
    { ...settings, minVersion: '1.3' },
    { onRead() {}, onProblem() {} },
  )
  t.teardown(() => strict.close())
  const strictPort = await listen(t, strict.plain)
  t.type(await connect(t, strictPort, { ca, maxVersion: 'TLSv1.2' }), 'string')
  t.type(await connect(t, strictPort, { ca }), tls.TLSSocket)
  const plain = connectPlain(port, '127.0.0.1', () => plain.write('GET / HTTP/1.1\r\n\r\n'))
  plain.on('error', () => {})
  await once(plain, 'close')
  t.equal(listeners.plain.options.handshakeTimeout, 5_000)
})

root.test('each bad file is reported with its setting', { skip }, async (t) => {
  const [own, other] = [makeCertificate(t), makeCertificate(t)]
  const folder = temporaryFolder(t)
  const [empty, broken, brokenKey] = ['empty', 'broken', 'key'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  writeFileSync(empty, '')
  writeFileSync(brokenKey, own.key.replace(/^(MI.{20})/m, '$1AAAA'))
  writeFileSync(broken, own.cert.replace(/^(MI.{20})/m, '$1????'))
  const good: TlsSettings = { certFile: own.path, keyFile: own.keyPath, minVersion: '1.2' }
  const problemOf = (change: Partial<TlsSettings>) => checkTls({ ...good, ...change }).join()
  t.equal(problemOf({}), '')
  t.match(
    problemOf({ certFile: '/nowhere' }),
    /^TLS_CERT_FILE: \/nowhere cannot be read \(ENOENT\)$/,
  )
  t.match(problemOf({ keyFile: folder }), /^TLS_KEY_FILE: .* cannot be read \(EISDIR\)$/)
  t.match(problemOf({ keyFile: other.keyPath }), /^TLS_KEY_FILE: .* is not the key of /)
  t.match(problemOf({ keyFile: empty }), /^TLS_KEY_FILE: .* holds no private key/)
  const encrypted = join(folder, 'encrypted')
  writeFileSync(encrypted, own.key.replaceAll('PRIVATE', 'ENCRYPTED PRIVATE'))
  t.match(problemOf({ keyFile: encrypted }), /^TLS_KEY_FILE: .* is encrypted: use one without/)
  t.match(problemOf({ keyFile: brokenKey }), /^TLS_KEY_FILE: .* cannot be used with /)
  for (const certFile of [empty, broken, own.keyPath]) {
    t.match(problemOf({ certFile }), /^TLS_CERT_FILE: .* holds no certificate/)
  }
  for (const clientCaFile of [empty, broken]) {
    t.match(problemOf({ clientCaFile }), /^TLS_CLIENT_CA_FILE: .* holds no certificate/)
  }
  t.match(checkTls({ ...good, certFile: '/no', keyFile: empty, clientCaFile: folder }), [
    /^TLS_CERT_FILE/,
    /^TLS_KEY_FILE/,
    /^TLS_CLIENT_CA_FILE/,
  ])
})
