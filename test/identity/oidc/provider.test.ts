import { createHmac, generateKeyPairSync } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  base64url,
  CompactEncrypt,
  exportJWK,
  type JWK,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from 'jose'
import { type Test, test } from 'tap'
import { ServiceError } from '../../../src/formats/errors.ts'
import { readClaims } from '../../../src/identity/oidc/claims.ts'
import { createDocumentReader } from '../../../src/identity/oidc/documents.ts'
import { createKeySource } from '../../../src/identity/oidc/key-source.ts'
import { createProvider, type Provider } from '../../../src/identity/oidc/provider.ts'
import type { TokenCaller } from '../../../src/identity/rules/caller.ts'
import { type OidcIssuer, startOidcIssuer } from '../../support/oidc-issuer.ts'
import { poll } from '../../support/poll.ts'

const now = Date.UTC(2026, 2, 1, 12)
const seconds = now / 1_000

interface World {
  readonly issuer: OidcIssuer
  readonly provider: Provider
  readonly reasons: string[]
  /** The result of the verification: the caller, or the message of the refusal. */
  ask(token: string, at?: number): Promise<TokenCaller | string>
}

async function createWorld(
  t: Test,
  { graceMs = 60_000, monotonic = () => performance.now() } = {},
): Promise<World> {
  const issuer = await startOidcIssuer(t, { clock: () => now })
  const reasons: string[] = []
  const provider = createProvider({
    issuer: issuer.url,
    audiences: ['tollgate', 'other'],
    claims: {
      username: undefined,
      groups: 'groups',
      usernamePrefix: '',
      groupsPrefix: '',
      required: [],
    },
    keys: createKeySource({
      issuer: issuer.url,
      readDocument: createDocumentReader(),
      graceMs,
      monotonic,
      cooldownMs: 0,
      onUnavailable() {},
    }),
    onRefused: (reason) => reasons.push(reason),
  })
  t.teardown(() => provider.close())
  return {
    issuer,
    provider,
    reasons,
    async ask(token, at = now) {
      try {
        return await provider.verify(token, at)
      } catch (error) {
        if (error instanceof ServiceError && error.code === 'credential_invalid')
          return error.message
        throw error
      }
    },
  }
}

test('a token of the issuer identifies a caller', async (t) => {
  const { issuer, ask } = await createWorld(t)
  await issuer.addKey('rsa', { alg: 'RS256' })
  await issuer.addKey('ed', { alg: 'EdDSA' })
  const claims = { sub: '1', preferred_username: 'ada', groups: ['team-a', 'a,b'] }
  const ada = {
    by: 'token',
    proof: { by: 'oidc', issuer: issuer.url, prefixesUsers: false, prefixesGroups: false },
    user: 'ada',
    groups: ['team-a', 'a,b'],
  }
  for (const header of [
    {},
    { kid: 'rsa' },
    { kid: 'ed' },
    { typ: 'JWT' },
    { typ: 'at+jwt' },
    { typ: 'application/AT+JWT' },
  ])
    t.strictSame(await ask(await issuer.sign(claims, header)), ada, JSON.stringify(header))
  for (const aud of ['other', ['x', 'tollgate']])
    t.strictSame(await ask(await issuer.sign({ ...claims, aud })), ada, String(aud))
  for (const [title, times] of [
    ['59 seconds late', { exp: seconds - 59 }],
    ['issued by a fast clock', { iat: seconds + 60 }],
    ['valid by a fast clock', { nbf: seconds + 60 }],
  ] as const) {
    t.strictSame(await ask(await issuer.sign({ ...claims, ...times })), ada, title)
  }
})

test('a wrong claim is named after the signature has been verified', async (t) => {
  const { issuer, ask } = await createWorld(t)
  for (const [claims, message] of [
    [{ exp: seconds - 60 }, 'has expired (exp)'],
    [{ exp: seconds - 61 }, 'has expired (exp)'],
    [{ exp: null }, 'has no usable exp'],
    [{ exp: 'never' }, 'has no usable exp'],
    [{ nbf: seconds + 61 }, 'is not valid yet (nbf)'],
    [{ iat: seconds + 61 }, 'is from the future (iat)'],
    [{ iat: 'now' }, 'has no usable iat'],
    [{ aud: null }, 'is not meant for this service (aud)'],
    [{ aud: 'Tollgate' }, 'is not meant for this service (aud)'],
    [{ aud: 'tollgate,other' }, 'is not meant for this service (aud)'],
    [{ aud: [] }, 'is not meant for this service (aud)'],
    [{ aud: [['tollgate']] }, 'is not meant for this service (aud)'],
    [{ aud: { tollgate: 1 } }, 'is not meant for this service (aud)'],
    [{ iss: `${issuer.url}/` }, 'has no usable iss'],
    [{ iss: issuer.url.toUpperCase() }, 'has no usable iss'],
    [{ iss: [issuer.url] }, 'has no usable iss'],
    [{ sub: null }, 'has no usable name in sub'],
    [{ sub: 7 }, 'has no usable name in sub'],
    [{ groups: 7 }, 'has no list of groups in groups'],
    [{ groups: { team: 1 } }, 'has no list of groups in groups'],
    [{ groups: 'a\0' }, 'has no list of groups in groups'],
    [{ groups: ['a', ['b']] }, 'has no list of groups in groups'],
  ] as const) {
    const token = await issuer.sign({ sub: 'ada', ...claims } as JWTPayload)
    t.equal(await ask(token), `The identity token ${message}.`, JSON.stringify(claims))
  }
})

test('groups may be one text, none, or have blanks among them', async (t) => {
  const { issuer, ask } = await createWorld(t)
  for (const [groups, read] of [
    ['team-a', ['team-a']],
    ['team-a,team-b', ['team-a,team-b']],
    ['', []],
    [' ', []],
    [[], []],
    [['', 'team-a', '  '], ['team-a']],
    [['', ''], []],
  ] as const) {
    const caller = await ask(await issuer.sign({ sub: 'ada', groups }))
    t.match(caller, { user: 'ada' }, JSON.stringify(groups))
    t.strictSame((caller as TokenCaller).groups, read, JSON.stringify(groups))
  }
  const rules = { username: undefined, usernamePrefix: '', groupsPrefix: '', required: [] }
  const nobody = readClaims({ sub: 'ada', groups: null }, { ...rules, groups: 'groups' })
  t.strictSame(nobody, { user: 'ada', groups: [] })
})

test('each key of a set that fits is tried', async (t) => {
  const { issuer, ask } = await createWorld(t)
  const first = issuer.published.get('first')
  const strange = { ...(await freshKey(issuer, 'other')), kid: 'first' }
  for (const [index, keys] of [
    [strange, first],
    [first, first],
    [{ ...first, x: 'AAAA' }, first],
    [null, 'text', 7, [], first],
    [{ ...first, kid: undefined }, strange, first],
  ].entries()) {
    const marker = await freshKey(issuer, `marker-${index}`)
    issuer.published.clear()
    for (const [place, key] of [...keys, marker].entries()) {
      issuer.published.set(`${place}`, key as JWK)
    }
    // A key that is not known yet makes it read the set again.
    const marked = await issuer.sign({ sub: 'ada' }, { kid: `marker-${index}` })
    await poll(async () => typeof (await ask(marked)) === 'object', 'the set is read')
    const title = JSON.stringify(keys).slice(0, 60)
    t.match(await ask(await issuer.sign({ sub: 'ada' })), { user: 'ada' }, title)
    const forged = (await issuer.sign({ sub: 'ada' })).replace(/\.[^.]+$/, '.AAAA')
    t.equal(await ask(forged), 'The identity token is not valid.', title)
  }
})

test('a key that is too short does not hide another under its kid', async (t) => {
  const { issuer, ask } = await createWorld(t)
  t.match(await ask(await issuer.sign({ sub: 'ada' })), { user: 'ada' })
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1_024 })
  issuer.published.set('short', { ...(publicKey.export({ format: 'jwk' }) as JWK), kid: 'late' })
  await issuer.addKey('late', { alg: 'RS256' })
  const token = await issuer.sign({ sub: 'ada' }, { kid: 'late' })
  t.match(await ask(token), { user: 'ada' })
  const forged = token.replace(/\.[^.]+$/, '.AAAA')
  t.equal(await ask(forged), 'The identity token is not valid.')
})

async function freshKey(issuer: OidcIssuer, kid: string): Promise<JWK | undefined> {
  await issuer.addKey(kid)
  return issuer.published.get(kid)
}

test('the answer to a forged token says only that it is not valid', async (t) => {
  const { issuer, ask, reasons } = await createWorld(t)
  await issuer.addKey('hidden', { publish: false })
  const claims = { iss: issuer.url, aud: 'tollgate', sub: 'root', exp: seconds + 300 }
  const good = await issuer.sign({ sub: 'ada' })
  const [header = '', payload = '', signature = ''] = good.split('.')
  const encode = (value: unknown) => base64url.encode(JSON.stringify(value))
  const published = JSON.stringify(issuer.published.get('first'))
  const hmac = (secret: string) => {
    const text = `${encode({ alg: 'HS256', kid: 'first' })}.${encode(claims)}`
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
  }
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = await exportJWK(own.publicKey)
  const signed = (headers: object) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'ES256', ...headers }).sign(own.privateKey)
  const encrypted = await new CompactEncrypt(Buffer.from(good))
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', cty: 'JWT' })
    .encrypt(Buffer.alloc(32))
  const forged: readonly (readonly [string, string])[] = [
    ['unsigned', new UnsecuredJWT(claims).encode()],
    ['none in capitals', `${encode({ alg: 'NONE' })}.${encode(claims)}.`],
    ['signature dropped', `${header}.${payload}.`],
    ['payload replaced', `${header}.${encode(claims)}.${signature}`],
    ['header replaced', `${encode({ alg: 'ES256', kid: 'first', x: 1 })}.${payload}.${signature}`],
    ['one bit off', `${header}.${payload}.${signature.slice(0, -4)}AAAA`],
    ['HS256 with the public key', hmac(published)],
    ['HS256 with an empty key', hmac('')],
    ['another key under a known kid', await signed({ kid: 'first' })],
    ['another key without a kid', await signed({})],
    ['jwk embedded', await signed({ jwk })],
    ['jwk embedded under a known kid', await signed({ jwk, kid: 'first' })],
    ['jku', await signed({ jku: 'http://localhost:1/keys', kid: 'mine' })],
    ['x5u', await signed({ x5u: 'http://localhost:1/keys', kid: 'mine' })],
    ['kid as a path', await signed({ kid: '../../dev/null' })],
    ['kid as a query', await signed({ kid: "' or 1=1 --" })],
    ['kid of a prototype', await signed({ kid: '__proto__' })],
    ['an unpublished key', await issuer.sign({ sub: 'ada' }, { kid: 'hidden' })],
    [
      'an algorithm that is not allowed',
      good.replace(header, encode({ alg: 'ES384', kid: 'first' })),
    ],
    ['crit', await signed({ kid: 'first', crit: ['b64'], b64: true })],
    ['another type', await issuer.sign({ sub: 'ada' }, { typ: 'logout+jwt' })],
    [
      'a typ that is not a string',
      await issuer.sign({ sub: 'ada' }, { typ: 7 as unknown as string }),
    ],
    ['nested', await issuer.sign({ sub: 'ada' }, { cty: 'JWT' })],
    ['encrypted', encrypted],
    ['no JSON', `${header}.${base64url.encode('x')}.${signature}`],
    ['nothing', '..'],
  ]
  for (const [title, token] of forged) {
    t.equal(await ask(token), 'The identity token is not valid.', title)
  }
  t.equal(reasons.length, forged.length, 'the log has the reason')
  for (const reason of reasons) t.notMatch(reason, /eyJ|root|ada/)
  t.match(await ask(good), { user: 'ada' }, 'the valid token is still valid')
  t.strictSame([...new Set(issuer.asked)], ['/.well-known/openid-configuration', '/keys'])
})

test('only signatures with an allowed algorithm are accepted', async (t) => {
  const { issuer, ask, reasons } = await createWorld(t)
  for (const alg of ['RS384', 'PS256']) {
    await issuer.addKey(alg, { alg })
    t.match(await ask(await issuer.sign({ sub: 'ada' }, { kid: alg })), { user: 'ada' })
  }
  await issuer.addKey('other', { alg: 'Ed25519' })
  const token = await issuer.sign({ sub: 'ada' }, { kid: 'other' })
  t.equal(await ask(token), 'The identity token is not valid.')
  t.match(reasons.at(-1), /not allowed \(alg\)/)
})

test('a claim added before another of the same name breaks the signature', async (t) => {
  const { issuer, ask } = await createWorld(t)
  const token = await issuer.sign({ sub: 'ada' })
  const [header, payload = '', signature] = token.split('.')
  const doubled = Buffer.from(payload, 'base64url').toString().replace('{', '{"sub":"root",')
  t.equal(
    await ask(`${header}.${base64url.encode(doubled)}.${signature}`),
    'The identity token is not valid.',
    'only the issuer can sign it',
  )
})

test('a verified token is not verified again until it expires', async (t) => {
  const { issuer, ask, provider } = await createWorld(t)
  const token = await issuer.sign({ sub: 'ada', exp: seconds + 100 })
  const first = await ask(token)
  t.equal(provider.verify(token, now + 99_000), first, 'synchronously, without a promise')
  t.type(provider.verify(token, now - 1), Promise, 'not cached for a clock that was set back')
  t.match(await ask(token, now + 100_000), { user: 'ada' }, 'verified again, within the tolerance')
  t.equal(await ask(token, now + 160_000), 'The identity token has expired (exp).')
  const long = await issuer.sign({ sub: 'ada', exp: seconds + 10_000 })
  await ask(long)
  t.equal(provider.verify(long, now + 299_999) instanceof Promise, false)
  t.equal(provider.verify(long, now + 300_000) instanceof Promise, true, 'not longer than the TTL')
})

test('tokens with the same groups share them in the cache', async (t) => {
  const { issuer, ask } = await createWorld(t)
  const groups = Array.from({ length: 300 }, (_, i) => `group-${i}`)
  const tokens = await Promise.all(
    ['1', '2'].map((jti) => issuer.sign({ sub: 'ada', groups, jti })),
  )
  const [one, other] = (await Promise.all(tokens.map((token) => ask(token)))) as TokenCaller[]
  t.strictSame(one?.groups, groups)
  t.equal(other?.groups, one?.groups, 'one list for both')
})

test('a cached verdict ends with the key that signed the token', async (t) => {
  const { issuer, ask } = await createWorld(t)
  const token = await issuer.sign({ sub: 'ada' })
  t.match(await ask(token), { user: 'ada' })
  issuer.published.delete('first')
  await issuer.addKey('second')
  t.match(await ask(await issuer.sign({ sub: 'bob' }, { kid: 'second' })), { user: 'bob' })
  t.equal(await ask(token), 'The identity token is not valid.')
})

test('no verdict outlasts the grace period of an outage', async (t) => {
  let passed = 0
  const { issuer, ask, provider } = await createWorld(t, {
    graceMs: 1_000,
    monotonic: () => passed,
  })
  const token = await issuer.sign({ sub: 'ada' })
  await ask(token)
  await issuer.stop()
  passed += 1
  await issuer.addKey('second')
  const fresh = await issuer.sign({ sub: 'ada' }, { kid: 'second' })
  await t.rejects(ask(fresh), { code: 'identity_unavailable' })
  t.ok(provider.isUnavailable)
  passed += 1_000
  t.match(await ask(token), { user: 'ada' })
  passed += 1
  await t.rejects(ask(token), { code: 'identity_unavailable' }, 'cached or not')
  await issuer.start()
  passed += 1
  t.match(await ask(token), { user: 'ada' }, 'recovers after the outage')
})

test('two key rotations in quick succession are followed', async (t) => {
  const { issuer, ask } = await createWorld(t)
  const token = await issuer.sign({ sub: 'ada' })
  t.match(await ask(token), { user: 'ada' })
  for (const [kid, gone] of [
    ['second', 'first'],
    ['third', 'second'],
  ] as const) {
    await issuer.addKey(kid)
    issuer.published.delete(gone)
    await sleep(2)
    t.match(await ask(await issuer.sign({ sub: 'ada' }, { kid })), { user: 'ada' }, kid)
    const old = await issuer.sign({ sub: 'ada' }, { kid: gone })
    t.equal(await ask(old), 'The identity token is not valid.', gone)
  }
  t.equal(await ask(token), 'The identity token is not valid.')
})

test('a new key under the kid of an old one is read', async (t) => {
  let passed = 0
  const { issuer, ask } = await createWorld(t, { monotonic: () => passed })
  const old = await issuer.sign({ sub: 'ada' })
  t.match(await ask(old), { user: 'ada' })
  await issuer.addKey('first')
  const token = await issuer.sign({ sub: 'bob' })
  passed += 29_999
  t.equal(await ask(token), 'The identity token is not valid.', 'forged tokens cause few reads')
  passed += 1
  t.match(await ask(token), { user: 'bob' })
  t.equal(await ask(old), 'The identity token is not valid.')
})

test('a flood of forged tokens causes no requests to the provider', async (t) => {
  const { issuer, ask, reasons } = await createWorld(t)
  const good = await issuer.sign({ sub: 'ada' })
  await ask(good)
  const [header, payload] = good.split('.')
  const startedAt = process.cpuUsage()
  const forged = Array.from({ length: 2_000 }, (_, i) => {
    const signature = createHmac('sha512', `${i}`).update(good).digest('base64url')
    return ask(`${header}.${payload}.${signature}`)
  })
  t.match(await ask(good), { user: 'ada' }, 'the valid token is answered from the cache')
  t.strictSame([...new Set(await Promise.all(forged))], ['The identity token is not valid.'])
  const { user, system } = process.cpuUsage(startedAt)
  t.equal(issuer.asked.length, 2, 'discovery and keys, once each')
  t.equal(reasons.length, 2_000)
  t.comment(`2,000 forged tokens: ${Math.round((user + system) / 2_000)} µs CPU each`)
})
