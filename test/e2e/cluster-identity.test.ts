import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import root from 'tap'
import { formatAddress } from '../../src/settings/config.ts'
import { type Gateway, gatewayTests } from '../support/gateway.ts'
import { type OidcIssuer, startOidcIssuer } from '../support/oidc-issuer.ts'
import { startReviewServer } from '../support/review-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const cluster = await startReviewServer(root)
const [plain, prefixed] = [await startOidcIssuer(root), await startOidcIssuer(root)]
const providers = join(temporaryFolder(root), 'providers.yaml')
writeFileSync(
  providers,
  JSON.stringify({
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AuthenticationConfiguration',
    jwt: [
      [plain, ''],
      [prefixed, 'main:'],
    ].map(([issuer, prefix]) => ({
      issuer: { url: (issuer as OidcIssuer).url, audiences: ['tollgate'] },
      claimMappings: {
        username: { claim: 'sub', prefix },
        groups: { claim: 'groups', prefix: '' },
      },
    })),
  }),
)
const test = gatewayTests({
  env: {
    OIDC_PROVIDERS_FILE: providers,
    ADMIN_GROUPS: 'operators',
    KUBERNETES_TOKEN_REVIEW: 'true',
    KUBECONFIG: cluster.kubeconfig,
    OIDC_OUTAGE_GRACE: '0',
  },
})
const ada = 'system:serviceaccount:team:ada'
cluster.tokens.set('ada', { username: ada, groups: ['team'] })
cluster.tokens.set('ops', { username: 'ops', groups: ['team'] })
cluster.tokens.set('late', { username: 'late', groups: ['team', 'tollgate-admins'] })
cluster.tokens.set('vault', { username: 'eve', groups: ['team'], audiences: ['vault'] })
cluster.admins.add('ops')

async function create(gateway: Gateway, token: string) {
  const body = JSON.stringify({ name: 'mine', subscription: 'plenty' })
  const answer = await gateway.ask('/v1/api-keys', token, { method: 'POST', body })
  return { status: answer.status, ...JSON.parse(answer.text) }
}

test('a cluster token creates a key that works', async (t, gateway) => {
  const { status, key, id } = await create(gateway, 'ada')
  t.equal(status, 201)
  t.equal((await gateway.chat(key)).status, 200)
  const read = await gateway.ask(`/v1/api-keys/${id}`, 'ada')
  t.match(JSON.parse(read.text), { username: ada })
  t.equal((await gateway.chat('ada')).status, 401, 'the token does not allow inference')
  for (const token of ['invented', 'vault', 'a.b.c']) {
    t.equal((await create(gateway, token)).status, 401, token)
  }
})

test('an administrator by cluster roles sees the keys of others', async (t, gateway) => {
  const { id } = await create(gateway, 'ada')
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, 'ops')).status, 200)
  const late = await gateway.ask(`/v1/api-keys/${id}`, 'late')
  t.equal(late.status, 404, 'a group that is not configured makes no administrator')
  const search = (token: string) =>
    gateway.ask('/v1/api-keys/search', token, {
      method: 'POST',
      body: JSON.stringify({ filters: { username: ada } }),
    })
  t.equal((await search('ops')).status, 200)
  t.equal((await search('late')).status, 403)
  const reviews = cluster.asked.length
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, 'ada')).status, 200)
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, 'ada', { method: 'DELETE' })).status, 200)
  t.equal(cluster.asked.length, reviews, "no access review for one's own key")
})

test('a name of another source makes no administrator', async (t, gateway) => {
  const { id } = await create(gateway, 'ada')
  const statusFor = async (credential: string) =>
    (await gateway.ask(`/v1/api-keys/${id}`, credential)).status
  const listed = gateway.newUser()
  cluster.admins.add(listed)
  cluster.admins.add('main:ops').add('cluster-admins')
  const reviews = () => cluster.asked.filter((spec) => 'resourceAttributes' in spec).length

  const before = reviews()
  t.equal(await statusFor(`token-${listed}`), 404, 'a user of the token file')
  t.equal(await statusFor(await plain.sign({ sub: 'ops', groups: ['team'] })), 404, 'no prefix')
  t.equal(reviews(), before, 'the cluster is not asked about them')
  t.equal(await statusFor(await prefixed.sign({ sub: 'ops', groups: ['team'] })), 200)
  const group = await prefixed.sign({ sub: 'eve', groups: ['team', 'cluster-admins'] })
  t.equal(await statusFor(group), 404, 'a group without a prefix')
})

test('a key of an administrator is not one', async (t, gateway) => {
  const { id } = await create(gateway, 'ada')
  cluster.tokens.set('chief', { username: 'chief', groups: ['team', 'operators'] })
  for (const token of ['ops', 'chief']) {
    const { key } = await create(gateway, token)
    t.equal((await gateway.ask(`/v1/api-keys/${id}`, token)).status, 200, token)
    t.equal((await gateway.ask(`/v1/api-keys/${id}`, key)).status, 404, `a key of ${token}`)
  }
})

test('one 429 of the API server denies no other token', async (t, gateway) => {
  for (const name of ['first', 'second']) {
    cluster.tokens.set(name, { username: name, groups: ['team'] })
  }
  cluster.answer = (_request, response) => {
    cluster.answer = undefined
    response.writeHead(429).end('{}')
  }
  t.equal((await create(gateway, 'first')).status, 503)
  t.equal((await create(gateway, 'second')).status, 201)
  t.equal((await create(gateway, 'first')).status, 201)
})

test('without the API server cluster tokens get 503, and everything else works', async (t, gateway) => {
  const { key } = await gateway.mint()
  const { id } = await create(gateway, 'ada')
  cluster.answer = (_request, response) => response.writeHead(500).end()
  cluster.tokens.set('fresh', { username: 'fresh', groups: ['team'] })
  t.equal((await create(gateway, 'fresh')).status, 503)
  t.equal((await gateway.ask(`/v1/api-keys/${id}`, 'ada')).status, 200, 'still cached')
  t.equal(
    (await gateway.ask(`/v1/api-keys/${id}`, `token-${gateway.newUser()}`)).status,
    404,
    'no one is an administrator',
  )
  t.equal((await gateway.chat(key)).status, 200)
  const ready = await fetch(`http://${formatAddress(gateway.addresses.internal)}/readyz`)
  t.equal(ready.status, 200)
  t.match(await ready.json(), { degraded: ['kubernetes'] })
  cluster.answer = undefined
})
