import { test } from 'tap'
import {
  type Authenticate,
  createAuthenticator,
  createKeyVerifier,
  credentialOf,
  hasNoCredential,
  type PresentedHeaders,
} from '../../src/identity/authenticate.ts'
import { hashOfKey } from '../../src/keys/rules/api-key.ts'
import { createMemoryApiKeys } from '../support/memory-api-keys.ts'

/** Records which way a credential was verified. */
const authenticate = presented(
  createAuthenticator({
    key: (credential) => ({
      by: 'token',
      proof: { by: 'file' },
      user: `key ${credential}`,
      groups: [],
    }),
    token: (credential) => ({
      by: 'token',
      proof: { by: 'file' },
      user: `token ${credential}`,
      groups: [],
    }),
  }),
)

/** The same for the headers of a request. */
function presented(authenticate: Authenticate) {
  return (headers: PresentedHeaders, ...more: [now: number, source?: () => string | undefined]) =>
    authenticate(credentialOf(headers), ...more)
}

function bearing(authorization: string | undefined): PresentedHeaders {
  return { authorization, apiKey: undefined }
}

test('the form of a credential determines how it is verified', async (t) => {
  for (const [header, user] of [
    ['Bearer sk-tg-a_b', 'key sk-tg-a_b'],
    ['Bearer sk-', 'key sk-'],
    ['Bearer alice-token', 'token alice-token'],
    ['Bearer eyJ.a.b', 'token eyJ.a.b'],
    ['Bearer SK-tg', 'token SK-tg'],
    ['bearer sk-tg-a_b', 'key sk-tg-a_b'],
    ['BEARER sk-tg-a_b', 'key sk-tg-a_b'],
    ['Bearer   alice-token  ', 'token alice-token'],
    ['Bearer Bearer', 'token Bearer'],
  ] as const) {
    t.match(authenticate(bearing(header), 0), { user }, header)
  }
})

test('anything else is not a credential', async (t) => {
  for (const header of [
    undefined,
    '',
    ' ',
    'Bearer',
    'Bearer ',
    'Bearer    ',
    'Basic YTpi',
    'sk-tg-a_b',
    'Bearersk-tg-a_b',
    'Bearer\tsk-tg-a_b',
    'Bearer a b',
    'Bearer a,b',
    'Bearer sk-tg-a_b, Bearer sk-tg-c_d',
    'Bearer a,',
    ',Bearer a',
    ' Bearer a',
    'Bearer a\n',
    'Bearer a\u00a0b',
    'Token a',
    'XBearer a',
    'Bearer a\r\nx: y',
  ]) {
    t.equal(authenticate(bearing(header), 0), null, JSON.stringify(header))
  }
})

test('a long header is refused quickly', async (t) => {
  const startedAt = process.cpuUsage()
  t.equal(authenticate(bearing(`Bearer ${' '.repeat(16_000)},`), 0), null)
  t.equal(authenticate(bearing(`Bearer ${'a'.repeat(8_000)} ${' '.repeat(8_000)},`), 0), null)
  t.ok(process.cpuUsage(startedAt).user < 2_000_000)
})

test('a header of commas is refused quickly', async (t) => {
  for (const part of [',', 'a,', ', ', 'Bearer,']) {
    const header = part.repeat(32_000 / part.length)
    const startedAt = process.cpuUsage()
    for (let i = 0; i < 100; i += 1) {
      t.equal(
        credentialOf(bearing(header)) ?? credentialOf({ ...bearing(''), apiKey: header }),
        undefined,
      )
      t.equal(hasNoCredential(bearing(header)), false)
    }
    const { user } = process.cpuUsage(startedAt)
    t.ok(user < 150_000, `${part} took ${user / 100} us`)
  }
})

test('the instant, the source and the refusal are passed on', async (t) => {
  const told: unknown[] = []
  const deny = presented(
    createAuthenticator({
      key: (_, now, source) => {
        told.push(now, source?.())
        return null
      },
      token: async () => null,
    }),
  )
  t.equal(
    deny(bearing('Bearer sk-a'), 7, () => '192.0.2.1'),
    null,
  )
  t.equal(await deny(bearing('Bearer a'), 8), null)
  t.strictSame(told, [7, '192.0.2.1'])
})

test('a key may be in x-api-key', async (t) => {
  const key = 'sk-tg-a_b'
  for (const authorization of [undefined, `Bearer ${key}`, `bearer  ${key}`])
    t.match(authenticate({ authorization, apiKey: key }, 0), { user: `key ${key}` })
  for (const [authorization, apiKey] of [
    [undefined, ''],
    [undefined, 'alice-token'],
    [`Bearer ${key}`, 'sk-tg-c_d'],
    [`Bearer ${key}, Bearer sk-tg-c_d`, key],
    [`Bearer ${key}`, `${key}, sk-tg-c_d`],
    ['Bearer alice-token', key],
    ['Basic YTpi', key],
    [`Bearer ${key},`, key],
  ] as const) {
    t.equal(authenticate({ authorization, apiKey }, 0), null, `${authorization} and ${apiKey}`)
  }
})

test('a blank credential is none, and the same one twice is one', async (t) => {
  const key = 'sk-tg-a_b'
  for (const blank of [undefined, '', ' ', 'Bearer', 'Bearer ', 'bearer   ']) {
    t.match(authenticate({ authorization: blank, apiKey: key }, 0), { user: `key ${key}` })
    t.equal(hasNoCredential({ authorization: blank, apiKey: ' ' }), true)
  }
  for (const blank of ['', ' ']) {
    t.match(authenticate({ authorization: `Bearer ${key}`, apiKey: blank }, 0), { user: /key/ })
    t.match(authenticate({ authorization: 'Bearer a', apiKey: blank }, 0), { user: 'token a' })
  }
  for (const [authorization, apiKey, user] of [
    ['Bearer a', 'a', 'token a'],
    ['Bearer a,Bearer a', undefined, 'token a'],
    [`Bearer ${key}, Bearer ${key}`, `${key}, ${key}`, `key ${key}`],
    [undefined, `${key},${key}`, `key ${key}`],
    [undefined, `, ${key}`, `key ${key}`],
    [undefined, `${key}, `, `key ${key}`],
    ['Bearer, Bearer a', undefined, 'token a'],
    ['bearer a, bearer', undefined, 'token a'],
  ] as const) {
    t.match(authenticate({ authorization, apiKey }, 0), { user }, `${authorization} and ${apiKey}`)
  }
  t.equal(hasNoCredential({ authorization: 'Bearer, Bearer', apiKey: ', ' }), true)
  t.equal(hasNoCredential({ authorization: 'Basic YTpi', apiKey: undefined }), false)
})

test('credentials above 16 KiB are not read', async (t) => {
  const [fits, long] = ['a'.repeat(16_384), 'a'.repeat(16_385)]
  t.match(authenticate(bearing(`Bearer ${fits}`), 0), { user: `token ${fits}` })
  t.equal(authenticate(bearing(`Bearer ${long}`), 0), null)
  t.equal(authenticate({ authorization: undefined, apiKey: `sk-${long}` }, 0), null)
})

const now = 1_000_000
const markers = { own: 'tg', accepted: new Set(['oai']) }

test('an active key gives its owner as of its creation', async (t) => {
  const keys = createMemoryApiKeys()
  const key = keys.mint({ id: 'id-1', user: 'ada', groups: ['then'], subscription: 'basic' })
  t.strictSame(createKeyVerifier(keys, markers)(key, now), {
    by: 'key',
    user: 'ada',
    groups: ['then'],
    keyId: 'id-1',
    subscription: 'basic',
  })
})

test('what is decided for a key is remembered while it is trusted, and before its end is news', async (t) => {
  const keys = createMemoryApiKeys()
  const day = 86_400_000
  const rememberedOf = (record: object, more: object = {}) => {
    const key = keys.mint(record)
    const findByHash = (hash: string) => {
      const found = keys.findByHash(hash)
      return found && { ...found, trustedUntil: performance.now() + 60_000, ...more }
    }
    const caller = createKeyVerifier({ findByHash }, markers)(key, now)
    const { remembered } = caller as { remembered?: { hash: string; until: number } }
    if (remembered) t.equal(remembered.hash, hashOfKey(key, markers))
    return remembered?.until
  }
  const until = rememberedOf({ expiresAt: null }) ?? 0
  t.ok(until > now + 50_000 && until <= now + 60_000, `${until}`)
  const ending = { createdAt: now + 1_000 - 9 * day, expiresAt: now + 1_000 + day }
  t.equal(rememberedOf(ending), now + 1_000, 'from when on its end is news')
  t.equal(rememberedOf({ ...ending, createdAt: now - 9 * day, expiresAt: now + day }), undefined)
  t.equal(rememberedOf({}, { ageMs: 5 }), undefined, 'in an outage')
  t.equal(rememberedOf({}, { trustedUntil: undefined }), undefined)
})

test('the end of a replaced secret is news from the beginning', async (t) => {
  const keys = createMemoryApiKeys()
  const replaced = { createdAt: 0, expiresAt: 10_000 }
  const key = keys.mint(replaced)
  const findByHash = (hash: string) => {
    const found = keys.records.get(hash)
    return found && { ...found, isPrevious: true as const }
  }
  const verifyKey = createKeyVerifier({ findByHash }, markers)
  t.match(verifyKey(key, 1_000), { by: 'key', endsSoonAt: 10_000 })
  t.match(
    createKeyVerifier(keys, markers)(key, 1_000),
    { endsSoonAt: undefined },
    'of other secrets near their end',
  )
})

test('other keys give no caller', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createKeyVerifier(keys, markers)
  t.equal(verify('sk-oai-a_b', now), null, 'unknown')
  t.match(verify(keys.mint({ expiresAt: now + 1 }), now), { by: 'key' })
})

test('the holder of an ended key is told why and when it ended', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createKeyVerifier(keys, markers)
  const late = createKeyVerifier({ findByHash: async (hash) => keys.findByHash(hash) }, markers)
  for (const [record, message] of [
    [{ status: 'revoked' }, 'The API key was revoked.'],
    [{ status: 'revoked', revokedAt: 5_999 }, 'The API key was revoked at 1970-01-01T00:00:05Z.'],
    [{ status: 'expired', expiresAt: now + 1 }, 'The API key has expired.'],
    [{ status: 'expired' }, 'The API key has expired.'],
    [{ expiresAt: now }, 'The API key expired at 1970-01-01T00:16:40Z.'],
    [{ expiresAt: now - 1 }, 'The API key expired at 1970-01-01T00:16:39Z.'],
  ] as const) {
    const key = keys.mint(record)
    const refusal = { code: 'credential_invalid', message }
    t.throws(() => verify(key, now), refusal)
    await t.rejects(async () => late(key, now), refusal)
    // The id without the secret reveals nothing.
    t.equal(verify(`${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`, now), null)
    t.equal(verify(`${key.split('_')[0]}_${keys.mint().split('_')[1]}`, now), null)
  }
})

test('only well-formed keys are looked up in the store', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createKeyVerifier(keys, markers)
  const key = keys.mint()
  for (const wrong of [
    '',
    'sk-',
    'sk-tg-a_b',
    'sk-xyz-a_b',
    `${key}0`,
    key.slice(1),
    key.replace('_', '-'),
    keys.mint({}, 'other'),
  ]) {
    t.equal(verify(wrong, now), null)
  }
  t.strictSame(keys.asked, [])
})

test('a store that answers later is waited for', async (t) => {
  const keys = createMemoryApiKeys()
  const verify = createKeyVerifier({ findByHash: async (hash) => keys.findByHash(hash) }, markers)
  const answer = verify(keys.mint(), now)
  t.ok(answer instanceof Promise)
  t.match(await answer, { user: 'ada' })
  t.equal(await verify('sk-oai-a_b', now), null)
  const broken = createKeyVerifier(
    { findByHash: () => Promise.reject(new Error('unavailable')) },
    markers,
  )
  await t.rejects(async () => broken(keys.mint(), now), /unavailable/)
})

test('a use is recorded if the key is valid', async (t) => {
  const keys = createMemoryApiKeys()
  const uses: (readonly [string, number])[] = []
  const note = (hash: string, at: number) => void uses.push([hash, at])
  const good = keys.mint({ id: 'good' })
  const verify = createKeyVerifier(keys, markers, note)
  verify(good, now)
  const late = createKeyVerifier(
    { findByHash: async (hash) => keys.findByHash(hash) },
    markers,
    note,
  )
  await late(good, now + 1)
  for (const key of [
    keys.mint({ status: 'revoked' }),
    keys.mint({ expiresAt: now }),
    'sk-oai-a_b',
  ]) {
    try {
      verify(key, now)
    } catch {
      // The key has ended.
    }
  }
  t.strictSame(uses, [
    [hashOfKey(good, markers), now],
    [hashOfKey(good, markers), now + 1],
  ])
})

test('the store is told where a request comes from', async (t) => {
  const told: unknown[] = []
  const verify = createKeyVerifier(
    { findByHash: (_, source) => void told.push(source?.()) as undefined },
    markers,
  )
  verify('sk-oai-a_b', now, () => '192.0.2.1')
  verify('sk-oai-a_b', now)
  t.strictSame(told, ['192.0.2.1', undefined])
})
