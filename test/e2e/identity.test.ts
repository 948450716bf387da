import { createHmac, generateKeyPairSync } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { base64url, exportJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import root, { type Test } from 'tap'
import { openPool } from '../../src/store/postgres/postgres.ts'
import { subscription } from '../support/documents.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { freePorts } from '../support/free-ports.ts'
import { chatPath, models } from '../support/gateway.ts'
import { startOpenidProvider } from '../support/openid-provider.ts'
import { poll } from '../support/poll.ts'
import { startReplicas } from '../support/replicas.ts'
import { startReviewServer } from '../support/review-server.ts'

/** A real OpenID provider, a test double of the cluster, one process of the service, and Envoy. */
async function startWorld(t: Test) {
  const provider = await startOpenidProvider(t)
  const cluster = await startReviewServer(t)
  const [metricsPort] = await freePorts(1)
  const replicas = await startReplicas(t, {
    count: 1,
    tokens: ['listed-token,listed,1,team'],
    resources: (backendUrl) => [
      ...models(backendUrl),
      subscription('plenty', { groups: ['team'] }, { 'llm/sim': [[1_000_000, '1h']] }),
      subscription('of-a', { groups: ['a'] }, { 'llm/sim': [[1_000_000, '1h']] }),
    ],
    env: {
      OIDC_ISSUER_URL: provider.url,
      OIDC_CLIENT_ID: 'tollgate',
      OIDC_OUTAGE_GRACE: '8s',
      KUBERNETES_TOKEN_REVIEW: 'true',
      KUBECONFIG: cluster.kubeconfig,
      METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
      LOG_LEVEL: 'trace',
    },
  })
  provider.groups.set('ada', ['team']).set('bob', ['team']).set('robot', ['team', 'other'])
  provider.groups.set('eve', ['te,am', '["team"]', 'team ', 'other'])
  cluster.tokens.set('cluster-token-of-ops', { username: 'ops', groups: ['team'] })
  cluster.admins.add('ops').add('a')
  return { provider, cluster, replicas, metricsPort }
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

const skip = envoyPath() === undefined && 'no Envoy'
let starting: ReturnType<typeof startWorld> | undefined
/** All credentials that were used or issued; the last test searches the outputs for them. */
const secrets = new Set<string>()

async function world() {
  starting ??= startWorld(root as unknown as Test)
  const { replicas, provider, ...others } = await starting
  async function ask(path: string, token: string, init: RequestInit = {}): Promise<Answer> {
    secrets.add(token)
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const answer = await fetch(replicas.url + path, { headers, ...init })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  const mint = (token: string, subscription = 'plenty') =>
    ask('/v1/api-keys', token, {
      method: 'POST',
      body: JSON.stringify({ name: 'mine', subscription }),
    })
  return {
    ...others,
    provider,
    replicas,
    ask,
    mint,
    /** Creates a key; any status other than 201 is an error. */
    async minted(token: string): Promise<{ readonly key: string; readonly id: string }> {
      const answer = await mint(token)
      if (answer.status !== 201) throw new Error(`no key: ${answer.status} ${answer.text}`)
      const { key, id } = JSON.parse(answer.text)
      secrets.add(key)
      return { key, id }
    },
    chat: (key: string) =>
      ask(chatPath, key, { method: 'POST', body: '{"model":"sim","messages":[]}' }),
    /** A token of the provider with these claims; otherwise valid. */
    sign(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}) {
      const now = Math.floor(Date.now() / 1_000)
      const good = {
        ...{ iss: provider.url, aud: 'tollgate', sub: 'ada', preferred_username: 'ada' },
        ...{ groups: ['team'], iat: now, exp: now + 300 },
      }
      const all = Object.entries({ ...good, ...claims }).filter(([, value]) => value !== null)
      return provider.sign(Object.fromEntries(all) as JWTPayload, header)
    },
  }
}

type World = Awaited<ReturnType<typeof world>>

function test(title: string, body: (t: Test, world: World) => Promise<unknown>): void {
  root.test(title, { skip }, async (t) => void (await body(t as Test, await world())))
}

test('tokens of each kind create, read and revoke keys', async (t, {
  provider,
  ask,
  minted,
  chat,
}) => {
  const { idToken, accessToken } = await provider.logIn('ada')
  for (const [token, owner] of [
    [idToken, 'ada'],
    [accessToken, 'ada'],
    [await provider.robotToken(), 'robot'],
    ['cluster-token-of-ops', 'ops'],
    ['listed-token', 'listed'],
  ] as const) {
    const { key, id } = await minted(token)
    t.equal((await chat(key)).status, 200, owner)
    const read = await ask(`/v1/api-keys/${id}`, token)
    t.match(JSON.parse(read.text), { username: owner, subscription: 'plenty' })
    t.equal((await ask(`/v1/api-keys/${id}`, token, { method: 'DELETE' })).status, 200)
    t.equal((await chat(key)).status, 401, 'revoked')
    t.equal((await chat(token)).status, 401, 'a token is not accepted as a key')
  }
})

test('groups decide which subscriptions apply', async (t, { provider, ask, mint }) => {
  const { idToken } = await provider.logIn('eve')
  t.equal((await mint(idToken)).status, 403)
  t.equal((await mint(idToken, 'none')).status, 403)
  t.strictSame(JSON.parse((await ask('/v1/subscriptions', idToken)).text), [])
  const listed = await ask('/v1/subscriptions', await provider.robotToken())
  t.match(JSON.parse(listed.text), [{ subscription_id_header: 'plenty' }])
  t.equal(JSON.parse(listed.text).length, 1)
})

test('the group "a,b" is not the groups "a" and "b"', async (t, all) => {
  const { cluster, sign, mint, ask, minted } = all
  const { id } = await minted('listed-token')
  const [joined, apart] = [['a,b'], ['a', 'b']]
  const ways = [
    ['carol', [joined, apart]],
    ['dave', [apart, joined]],
  ] as const
  for (const [name, order] of ways) {
    for (const groups of order) {
      const opens = groups === apart
      const ofCluster = `cluster-token-of-${name}-${groups.length}`
      cluster.tokens.set(ofCluster, { username: name, groups })
      for (const token of [await sign({ preferred_username: name, groups }), ofCluster]) {
        t.equal((await mint(token, 'of-a')).status, opens ? 201 : 403, `${name} creates a key`)
      }
      const read = await ask(`/v1/api-keys/${id}`, ofCluster)
      t.equal(read.status, opens ? 200 : 404, `${name} administers`)
    }
  }
})

test('a key is not accepted as a token, nor a token as a key', async (t, {
  minted,
  mint,
  sign,
  ask,
}) => {
  const { key } = await minted(await sign())
  const refused = await mint(key)
  t.equal(refused.status, 403)
  t.match(JSON.parse(refused.text), { error: { code: 'identity_token_required' } })
  const token = await sign()
  for (const headers of [
    { 'x-api-key': token },
    { authorization: `Bearer ${token}`, 'x-api-key': key },
    { authorization: `Bearer ${key}`, 'x-api-key': `${key}x` },
  ]) {
    t.equal((await ask('/v1/subscriptions', token, { headers })).status, 401)
    const chat = { method: 'POST', headers, body: '{"model":"sim","messages":[]}' }
    t.equal((await ask(chatPath, token, chat)).status, 401)
  }
})

test('refuses all other tokens with 401, for the API and inference', async (t, all) => {
  const { provider, sign, ask } = all
  const now = Math.floor(Date.now() / 1_000)
  const [published] = provider.published
  const own = generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const claims = { iss: provider.url, aud: 'tollgate', sub: 'root', exp: now + 300 }
  const forge = (header: Record<string, unknown>) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', ...header }).sign(own.privateKey)
  const good = await sign()
  t.equal((await ask('/v1/subscriptions', good)).status, 200)
  const [header, payload = '', signature] = good.split('.')
  const encode = (value: unknown) => base64url.encode(JSON.stringify(value))
  const text = `${encode({ alg: 'HS256', kid: 'first' })}.${encode(claims)}`
  const pem = JSON.stringify(published)
  const kept = Buffer.from(payload, 'base64url').toString().replace('"ada"', '"bob"')
  const rows: readonly (readonly [string, string, RegExp])[] = [
    ['wrong audience', await sign({ aud: 'web' }), /\(aud\)/],
    ['no audience', await sign({ aud: null }), /\(aud\)/],
    ['wrong issuer', await sign({ iss: `${provider.url}/` }), /missing or not valid/],
    ['expired by 70 s', await sign({ exp: now - 70 }), /expired \(exp\)/],
    ['issued in 75 s', await sign({ iat: now + 75 }), /future \(iat\)/],
    ['valid in 75 s', await sign({ nbf: now + 75 }), /not valid yet \(nbf\)/],
    ['no exp', await sign({ exp: null }), /no usable exp/],
    ['tampered', `${header}.${base64url.encode(kept)}.${signature}`, /token is not valid/],
    ['another key under a known kid', await forge({ kid: 'first' }), /token is not valid/],
    ['unknown kid', await forge({ kid: 'unknown' }), /token is not valid/],
    ['none', new UnsecuredJWT(claims).encode(), /token is not valid/],
    [
      'HS256 by the public key',
      `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`,
      /token is not valid/,
    ],
    ['jku', await forge({ kid: 'first', jku: `${provider.url}/mine` }), /token is not valid/],
    ['jwk', await forge({ jwk: await exportJWK(own.publicKey) }), /token is not valid/],
    ['kid as a path', await forge({ kid: '../../../dev/null' }), /token is not valid/],
    ['no name', await sign({ sub: null, preferred_username: null }), /name in sub/],
    ['a numeric name', await sign({ preferred_username: 7 }), /name in preferred_username/],
    ['groups as a number', await sign({ groups: 7 }), /list of groups/],
    [
      'a name reserved for the cluster',
      await sign({ preferred_username: 'system:admin' }),
      /system:/,
    ],
    ['16 KiB', await sign({ padding: 'x'.repeat(13_000) }), /missing or not valid/],
    ['200 KB', await sign({ padding: 'x'.repeat(150_000) }), /missing or not valid/],
    ['not a token', 'an-invented-token', /missing or not valid/],
  ]
  for (const [title, token, reason] of rows) {
    for (const path of ['/v1/subscriptions', chatPath]) {
      const init = path === chatPath ? { method: 'POST', body: '{"model":"sim"}' } : {}
      const { status, headers, text } = await ask(path, token, init)
      if (title === '200 KB') {
        t.ok(status === 401 || status === 431, `${title}: ${status}`)
        continue
      }
      t.equal(status, 401, `${title}: ${text}`)
      const challenge = headers.get('www-authenticate') ?? ''
      t.match(challenge, /^Bearer error="invalid_token", error_description="[^"]+"$/, title)
      t.match(challenge, reason, `${title}, ${path}`)
      t.match(JSON.parse(text), { error: { code: 'credential_invalid' } }, title)
    }
  }
  t.equal(
    (await ask('/v1/subscriptions', await sign({ exp: now - 40 }))).status,
    200,
    'within the tolerance',
  )
  t.equal(
    (await ask('/v1/subscriptions', await sign({ iat: now + 50 }))).status,
    200,
    'within the tolerance',
  )
})

test("follows the provider's key rotation", async (t, { provider, sign, ask }) => {
  const status = async (token: string) => (await ask('/v1/subscriptions', token)).status
  const old = await sign()
  t.equal(await status(old), 200)
  await provider.rotate(['second', 'first'])
  const added = (await provider.logIn('ada')).idToken
  const startedAt = performance.now()
  await poll(async () => (await status(added)) === 200, 'the added key works', 65_000)
  t.comment(`an added key worked after ${Math.round(performance.now() - startedAt)} ms`)
  t.equal(await status(old), 200, 'the old key still works')
  await provider.rotate(['third', 'second'])
  const third = (await provider.logIn('ada')).idToken
  await poll(async () => (await status(third)) === 200, 'rotated twice in a minute', 65_000)
  t.equal(await status(old), 401, 'the removed key is refused, even for a cached token')
  t.equal(await status(added), 200)
})

/**
 * When the administrator's role was removed; the following tests use up most of the time it may
 * last.
 */
let takenAt = 0

test('administrators are decided by the cluster', async (t, { cluster, minted, ask, sign }) => {
  const { id } = await minted(await sign())
  const read = async (token: string) => (await ask(`/v1/api-keys/${id}`, token)).status
  t.equal(await read('cluster-token-of-ops'), 200)
  t.equal(await read(await sign({ preferred_username: 'bob' })), 404)
  const late = 'cluster-token-of-late'
  cluster.tokens.set(late, { username: 'late', groups: ['team', 'a'] })
  t.equal((await ask('/v1/subscriptions', late)).status, 200)
  cluster.answer = (_request, response) => response.writeHead(403).end('{}')
  t.equal(await read(late), 404, 'a failed review makes no one an administrator')
  cluster.answer = undefined
  await poll(async () => (await read(late)) === 200, 'reviews work again', 5_000)
  cluster.admins.delete('ops')
  takenAt = performance.now()
})

test('without the provider tokens work for the grace period', async (t, all) => {
  const { provider, sign, ask, minted, chat, replicas } = all
  const { key } = await minted('listed-token')
  const known = await sign()
  const status = async (token: string) => (await ask('/v1/subscriptions', token)).status
  t.equal(await status(known), 200)
  await provider.stop()
  await provider.rotate(['fourth', 'third'])
  const fresh = await sign()
  await poll(async () => (await status(fresh)) === 503, 'the key may be new', 30_000)
  t.equal(await status(known), 200, 'the cached keys are still used')
  await poll(async () => (await status(known)) === 503, 'the grace period is over', 30_000)
  const refused = await ask('/v1/subscriptions', known)
  t.equal(refused.headers.get('retry-after'), '2')
  t.match(JSON.parse(refused.text), { error: { code: 'identity_unavailable' } })
  const ready = await fetch(`http://${replicas.all[0]?.internal}/readyz`)
  t.match([ready.status, await ready.json()], [200, { degraded: ['oidc'] }])
  t.equal((await chat(key)).status, 200, 'API keys still work')
  await minted('listed-token')
  await provider.start()
  await poll(async () => (await status(fresh)) === 200, 'recovers on its own', 30_000)
})

test('a removed role ends within 30 seconds', async (t, { ask, minted }) => {
  const { id } = await minted('listed-token')
  await sleep(Math.max(0, takenAt + 30_500 - performance.now()))
  t.equal((await ask(`/v1/api-keys/${id}`, 'cluster-token-of-ops')).status, 404)
  const search = { method: 'POST', body: '{"filters":{"username":"ada"}}' }
  t.equal((await ask('/v1/api-keys/search', 'cluster-token-of-ops', search)).status, 403)
})

test('no output contains a credential', async (t, { replicas, metricsPort }) => {
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  for (const [source, result] of [
    ['file', 'ok'],
    ['oidc', 'ok'],
    ['oidc', 'refused'],
    ['oidc', 'unavailable'],
    ['cluster', 'ok'],
    ['cluster', 'refused'],
  ]) {
    const line = new RegExp(
      `^tollgate_identity_total{source="${source}",result="${result}"} (.*)$`,
      'm',
    )
    t.ok(Number(line.exec(metrics)?.[1]) > 0, `${source} ${result}`)
  }
  t.match(metrics, /^tollgate_access_reviews_total{result="failed"} [1-9]/m)
  const log = replicas.all[0]?.log() ?? ''
  t.match(log, /"proof":"oidc","issuer":"http:[^"]+","reason":"has expired \(exp\)"/)
  t.match(log, /"proof":"cluster","reason":"is not known to the cluster"/)
  const outputs = {
    metrics,
    log,
    envoy: replicas.envoy.log(),
    database: await readDatabase(replicas.database),
  }
  t.match(outputs.database, /ada/, 'the dump contains data')
  for (const [name, output] of Object.entries(outputs)) {
    const found = [...secrets].flatMap(partsOf).filter((part) => output.includes(part))
    t.strictSame(found, [], name)
  }
  t.comment(
    `searched for ${secrets.size} credentials in ${Object.values(outputs).join('').length} bytes`,
  )
})

/** The parts of a credential that are as good as the whole: of a JWT, its claims and signature. */
function partsOf(secret: string): readonly string[] {
  const [, claims = '', signature = ''] = secret.split('.')
  return [secret, claims, signature].filter((part) => part.length > 10)
}

/** All rows of all tables, as text. */
async function readDatabase(url: string): Promise<string> {
  const sql = openPool({ url, connections: 1 })
  try {
    const tables = await sql<{ name: string }[]>`
      select tablename as name from pg_tables where schemaname = 'public'`
    const rows = await Promise.all(
      tables.map(({ name }) => sql`select t::text as row from ${sql.identifier(name)} t`),
    )
    return JSON.stringify(rows)
  } finally {
    await sql.end()
  }
}
