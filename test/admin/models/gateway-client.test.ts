import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import https from 'node:https'
import { join } from 'node:path'
import { test } from 'tap'
import { createGatewayClient } from '../../../src/admin/models/gateway-client.ts'
import { makeCertificate, noOpenssl, selfSigned } from '../../support/certificates.ts'
import { listenLocally } from '../../support/listening.ts'
import { poll } from '../../support/poll.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('only the certificate in the file is accepted', { skip: noOpenssl }, async (t) => {
  const authority = selfSigned(temporaryFolder(t), 'DNS:authority.example')
  /** A certificate of the authority, followed by the authority's own, as servers send them. */
  const issue = () => {
    const folder = temporaryFolder(t)
    const at = (name: string) => join(folder, name)
    const openssl = (...args: readonly string[]) =>
      execFileSync('openssl', args, { stdio: 'ignore' })
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    openssl('req', ...newKey, '-subj', '/CN=x', '-keyout', at('key'), '-out', at('request'))
    writeFileSync(
      at('extensions'),
      'basicConstraints=CA:FALSE\nsubjectAltName=DNS:models.example\n',
    )
    openssl(
      ...['x509', '-req', '-in', at('request'), '-days', '1', '-extfile', at('extensions')],
      ...[
        '-CA',
        authority.path,
        '-CAkey',
        authority.keyPath,
        '-CAcreateserial',
        '-out',
        at('leaf'),
      ],
    )
    return {
      cert: readFileSync(at('leaf'), 'utf8') + authority.cert,
      key: readFileSync(at('key'), 'utf8'),
    }
  }
  const [first, second] = [issue(), issue()]
  const asked: (string | undefined)[] = []
  const server = https.createServer(first, ({ headers }, response) => {
    asked.push(headers.authorization)
    response.end()
  })
  const certFile = join(temporaryFolder(t), 'cert.pem')
  writeFileSync(certFile, first.cert)
  const port = await listenLocally(t, server)
  const askGateway = createGatewayClient({ host: '127.0.0.1', port, certFile })
  const ask = async (authorization: string) => {
    const response = await askGateway('/', { authorization }, AbortSignal.timeout(10_000))
    response.resume()
    return response.statusCode
  }
  t.equal(await ask('a'), 200)

  rmSync(certFile)
  const other = createGatewayClient({ host: '127.0.0.1', port, certFile })
  await t.rejects(other('/', {}, AbortSignal.timeout(10_000)), { code: 'ENOENT' })
  writeFileSync(certFile, first.cert)
  const later = await other('/', { authorization: 'later' }, AbortSignal.timeout(10_000))
  t.equal(later.resume().statusCode, 200, 'a file that was missing is read again')
  asked.pop()

  server.setSecureContext(second)
  server.closeAllConnections()
  await t.rejects(ask('b'), 'another certificate of the same authority')
  await t.rejects(ask('c'), /another certificate than GATEWAY_TLS_CERT_FILE/)
  t.strictSame(asked, ['a'], 'it gets no request')
  writeFileSync(certFile, second.cert)
  t.equal(await ask('d'), 200, 'a renewed certificate is read again')
  t.strictSame(asked, ['a', 'd'])
})

test('a request that fails closes no connection of others', { skip: noOpenssl }, async (t) => {
  const { cert, key, path: certFile } = makeCertificate(t)
  const open: ServerResponse[] = []
  let handshakes = 0
  const server = https.createServer({ cert, key }, (_request, response) => void open.push(response))
  server.on('secureConnection', () => {
    handshakes += 1
  })
  const port = await listenLocally(t, server)
  const askGateway = createGatewayClient({ host: '127.0.0.1', port, certFile })
  const slow = new AbortController()
  const [one, other] = [slow.signal, AbortSignal.timeout(60_000)].map((signal) =>
    askGateway('/', {}, signal),
  ) as [Promise<IncomingMessage>, Promise<IncomingMessage>]
  await poll(() => open.length === 2, 'both are asked')
  slow.abort()
  await t.rejects(one, { name: 'AbortError' })
  for (const response of open.splice(0)) response.end()
  const answer = await other
  await once(answer.resume(), 'end')
  const next = askGateway('/', {}, AbortSignal.timeout(60_000))
  await poll(() => open.length === 1, 'the next one is asked')
  open[0]?.end()
  t.equal((await next).resume().statusCode, 200)
  t.equal(handshakes, 2, 'over a connection that was open')
})
