import root from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { makeCertificate, noOpenssl } from '../support/certificates.ts'
import { chatPath, type Gateway, gatewayTests } from '../support/gateway.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'
import { poll } from '../support/poll.ts'

const issuer = await startOidcIssuer(root)
const certificate = noOpenssl ? undefined : makeCertificate(root)
const test = gatewayTests({
  env: {
    OIDC_ISSUER_URL: issuer.url,
    OIDC_CLIENT_ID: 'web, tollgate',
    OIDC_OUTAGE_GRACE: '0',
    ...(certificate && { OIDC_CA_FILE: certificate.path }),
  },
})

const ada = { sub: '1', preferred_username: 'ada', groups: ['team'] }

function create(gateway: Gateway, token: string, headers: Record<string, string> = {}) {
  const body = JSON.stringify({ name: 'mine', subscription: 'plenty' })
  return gateway.ask('/v1/api-keys', token, { method: 'POST', body, headers })
}

test('a token of the provider creates, reads and revokes a key', async (t, gateway) => {
  const token = await issuer.sign(ada)
  const created = await create(gateway, token)
  t.equal(created.status, 201, created.text)
  const { key, id } = JSON.parse(created.text)
  t.equal((await gateway.chat(key)).status, 200)
  const read = await gateway.ask(`/v1/api-keys/${id}`, token)
  t.match(JSON.parse(read.text), { username: 'ada' }, 'the owner is the name in the claim')
  const bob = await issuer.sign({ ...ada, preferred_username: 'bob' })
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, bob)).status, 404, 'a key of another user')
  const revoked = await gateway.ask(`/v1/api-keys/${id}`, token, { method: 'DELETE' })
  t.equal(revoked.status, 200)
  t.equal((await gateway.chat(key)).status, 401)
})

test('groups grant access, and headers do not', async (t, gateway) => {
  const stranger = await issuer.sign({ ...ada, groups: ['tea', 'm', 'te,am', '["team"]'] })
  const forged = { 'x-maas-username': 'root', 'x-maas-group': '["team"]' }
  t.equal((await create(gateway, stranger, forged)).status, 403)
  t.equal((await create(gateway, await issuer.sign({ ...ada, groups: undefined }))).status, 403)
})

test('a token lists models, but cannot call them', async (t, gateway) => {
  const token = await issuer.sign(ada)
  const listed = await gateway.ask('/llm/sim/v1/models', token, {
    headers: { 'x-maas-subscription': 'plenty' },
  })
  t.equal(listed.status, 200, listed.text)
  t.equal((await gateway.chat(token)).status, 401)
  t.equal((await gateway.chat(await issuer.sign({ ...ada, exp: 1 }), {}, {}, chatPath)).status, 401)
})

test('an error gives the reason', async (t, gateway) => {
  const expired = await issuer.sign({ ...ada, exp: Math.floor(Date.now() / 1_000) - 61 })
  const refused = await create(gateway, expired)
  t.equal(refused.status, 401)
  t.match(JSON.parse(refused.text), { error: { code: 'credential_invalid' } })
  t.match(
    refused.headers.get('www-authenticate'),
    /^Bearer error="invalid_token", error_description="The identity token has expired \(exp\)\."$/,
  )
  const [header, payload] = expired.split('.')
  const forged = await create(gateway, `${header}.${payload}.AAAA`)
  t.match(forged.headers.get('www-authenticate'), /"The identity token is not valid\."/)
  const huge = await create(gateway, await issuer.sign({ ...ada, padding: 'x'.repeat(200_000) }))
  t.ok([401, 431].includes(huge.status), `${huge.status}`)
  const long = await create(gateway, await issuer.sign({ ...ada, padding: 'x'.repeat(16_384) }))
  t.equal(long.status, 401)
  t.equal(
    long.headers.get('www-authenticate'),
    'Bearer error="invalid_token", error_description="The credential is missing or not valid."',
  )
})

test('follows changes of the provider in the Tenant', async (t, gateway) => {
  if (certificate === undefined) {
    t.pass('certificates are made', { skip: 'no openssl' })
    return
  }
  const theirs = await startOidcIssuer(t, { tls: certificate })
  const token = await theirs.sign(ada)
  t.equal((await create(gateway, token)).status, 401)
  const tenant = (issuerUrl: string) => [
    {
      apiVersion: 'tollgate.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'default-tenant', namespace: 'models-as-a-service' },
      spec: { externalOIDC: { issuerUrl, clientId: 'tollgate' } },
    },
  ]
  const status = async () => (await create(gateway, token)).status
  gateway.put('tenant.yaml', tenant(theirs.url))
  await poll(async () => (await status()) === 201, 'the new provider is in force')
  gateway.put('tenant.yaml', undefined)
  await poll(async () => (await status()) === 401, 'the provider and its cached results are gone')
})

test('without the provider its tokens get 503, and everything else works', async (t, gateway) => {
  const { key } = await gateway.mint()
  await issuer.stop()
  const unknown = await issuer.sign(ada, { kid: 'first' })
  t.equal((await create(gateway, unknown)).status, 201, 'the outage has not been noticed yet')
  await issuer.addKey('second')
  const fresh = await issuer.sign(ada, { kid: 'second' })
  const status = async () => (await create(gateway, fresh)).status
  await poll(async () => (await status()) === 503, 'the key may be new', 20_000)
  const { internal } = gateway.addresses
  const ready = await fetch(`http://${formatAddress(internal)}/readyz`)
  t.equal(ready.status, 200)
  t.match(await ready.json(), { degraded: ['oidc'] })
  t.equal((await gateway.chat(key)).status, 200)
  await gateway.mint()
  await issuer.start()
  await poll(async () => (await status()) === 201, 'recovers on its own', 30_000)
})
