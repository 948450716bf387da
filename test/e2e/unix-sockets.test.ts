import { statSync } from 'node:fs'
import { join } from 'node:path'
import root, { type Test } from 'tap'
import { requestOwnListener } from '../../src/cli/own-listener.ts'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { clientAt } from '../support/client-at.ts'
import { gatewayTests } from '../support/gateway.ts'
import { makeTemporaryFolder } from '../support/temporary-folder.ts'

const folder = makeTemporaryFolder()
root.teardown(() => folder.remove())
const [api, grpc, internal] = ['api', 'grpc', 'internal'].map((name) =>
  join(folder.path, `${name}.sock`),
) as [string, string, string]

const certificate = noOpenssl ? undefined : makeCertificate(root as Test)

const test = gatewayTests({
  env: {
    API_ADDRESS: `unix:${api}`,
    GRPC_ADDRESS: `unix:${grpc}`,
    INTERNAL_ADDRESS: `unix:${internal}`,
    API_RATE_LIMIT: '10/1h',
    // TLS applies to TCP; on the sockets Envoy still uses plaintext.
    ...(certificate && { TLS_CERT_FILE: certificate.path, TLS_KEY_FILE: certificate.keyPath }),
  },
})

test('Envoy reaches Check and the API over Unix sockets', async (t, gateway) => {
  for (const path of [api, grpc]) t.equal(statSync(path).mode & 0o777, 0o660)
  const { key } = await gateway.mint()
  t.equal((await gateway.chat(key)).status, 200)
  t.equal((await gateway.ask('/v1/subscriptions', key)).status, 200)
  await gateway.settled()
})

test('probes and the internal API answer on a socket', async (t) => {
  t.equal(statSync(internal).mode & 0o777, 0o660)
  for (const path of ['/livez', '/readyz', '/internal/v1/resources']) {
    t.equal((await requestOwnListener({ path: internal }, path)).status, 200, path)
  }
})

test('trusts the client address that Envoy sends over a socket', async (t, gateway) => {
  const ask = async (address: string) => {
    const client = clientAt(address, gateway)
    const { status } = await client.ask({ token: 'wrong' })
    client.close()
    return status
  }
  for (let i = 0; i < 20; i += 1) t.equal(await ask('127.0.0.2'), 401)
  t.equal(await ask('127.0.0.2'), 429)
  t.equal(await ask('127.0.0.3'), 401)
})

test('a restart uses the same sockets', async (t, gateway) => {
  const { key } = await gateway.mint()
  await gateway.stopService()
  await gateway.startService()
  t.equal((await gateway.chat(key)).status, 200)
})
