import { test } from 'tap'
import {
  type Authenticate,
  createAuthenticate,
  credentialOf,
  isBare,
  type Presented,
} from '../../src/identity/authenticate.ts'

/** Records which way a credential was verified. */
const authenticate = presented(
  createAuthenticate({
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
  return (headers: Presented, ...more: [now: number, source?: () => string | undefined]) =>
    authenticate(credentialOf(headers), ...more)
}

function bearing(authorization: string | undefined): Presented {
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

test('the instant, the source and the refusal are passed on', async (t) => {
  const told: unknown[] = []
  const deny = presented(
    createAuthenticate({
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
    t.equal(isBare({ authorization: blank, apiKey: ' ' }), true)
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
  ] as const) {
    t.match(authenticate({ authorization, apiKey }, 0), { user }, `${authorization} and ${apiKey}`)
  }
  t.equal(isBare({ authorization: 'Basic YTpi', apiKey: undefined }), false)
})

test('credentials above 16 KiB are not read', async (t) => {
  const [fits, long] = ['a'.repeat(16_384), 'a'.repeat(16_385)]
  t.match(authenticate(bearing(`Bearer ${fits}`), 0), { user: `token ${fits}` })
  t.equal(authenticate(bearing(`Bearer ${long}`), 0), null)
  t.equal(authenticate({ authorization: undefined, apiKey: `sk-${long}` }, 0), null)
})
